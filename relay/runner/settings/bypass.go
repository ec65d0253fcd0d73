package settings

import (
	"path/filepath"
	"slices"
	"strings"
)

// bypassFlags are the switches with which agents act without asking, as squeeze writes them: those of Claude Code, Codex, Gemini, Qwen,
// Cursor, Copilot, OpenCode, Kimi, Amp, Droid, Kiro and Aider. --dangerously-… is found by its beginning.
var bypassFlags = []string{
	"yolo", "force", "fullauto", "dangerously", "allowdangerouslyskippermissions", "skippermissions", "skippermissionsunsafe", "bypasspermissions",
	"bypassapprovals", "allowall", "allowalltools", "allowallpaths", "allowallurls", "trustalltools", "autoapprove", "yesalways", "dangerouslyallowall",
}

// harmlessFlags are the beginning of a switch of bypassFlags and mean something else. A headless Cursor needs --trust.
var harmlessFlags = []string{"trust", "skip", "allow", "all", "yes"}

// bypassModes are the words for a mode that asks nothing, wherever they stand: as a value, in JSON, or in a line of TOML.
var bypassModes = []string{"bypasspermissions", fullAccess, "agentfullaccess", "dangerouslyskippermissions", "dangerouslybypass", "approvalmode:yolo", "goosemode=auto"}

// autoYes are the programs for which -y and --yes mean: act without asking. For those of forced -f does.
var (
	autoYes = []string{"gemini", "qwen", "kimi", "cline", "crush", "goose", "copilot", "@google/gemini-cli", "@qwen-code/qwen-code"}
	forced  = []string{"cursor-agent", "agent", "cursor"}
)

// Bypasses reports whether the name of a mode of an agent's sessions says that the agent acts without asking.
func Bypasses(mode string) bool {
	name := squeeze(mode)
	return slices.Contains([]string{"yolo", "fullaccess", "never"}, name) || slices.ContainsFunc(bypassModes, func(m string) bool { return strings.Contains(name, m) })
}

// bypass returns the word of a command line with which an agent would act without asking, or "". Agents of kind cli cannot ask, so that
// only acp is refused a policy of approving never, and Codex without a sandbox of its own.
func bypass(argv []string, kind string) string {
	for i, word := range argv[min(1, len(argv)):] {
		before := argv[i]
		name, value, _ := strings.Cut(word, "=")
		switch {
		case isBypassFlag(name), bypassShort(argv, i+1):
			return word
		case bypassValue(word) && (kind != AgentCLI || bypassValue(withoutFullAccess(word))):
			return word
		case strings.HasPrefix(word, "--") && squeeze(value) == "yolo", squeeze(word) == "yolo" && strings.HasPrefix(before, "-"):
			return word
		case kind == AgentACP && approvesNever(before, word):
			return word
		}
	}
	return ""
}

// isBypassFlag reports whether a long switch, also cut short as many parsers take it, is one of bypassFlags.
func isBypassFlag(word string) bool {
	name, long := strings.CutPrefix(word, "--")
	name = squeeze(name)
	if !long || len(name) < 3 || slices.Contains(harmlessFlags, name) {
		return false
	}
	return strings.HasPrefix(name, "dangerously") || slices.ContainsFunc(bypassFlags, func(flag string) bool { return strings.HasPrefix(flag, name) })
}

// fullAccess is Codex's word for running commands without a sandbox of its own. It cannot make one inside that of the relay, which an agent of
// kind cli always has. With acp the same word means that nothing is asked.
const fullAccess = "dangerfullaccess"

func withoutFullAccess(word string) string { return strings.ReplaceAll(squeeze(word), fullAccess, "") }

func bypassValue(word string) bool {
	text := squeeze(word)
	return slices.ContainsFunc(bypassModes, func(mode string) bool { return strings.Contains(text, mode) })
}

// bypassShort reports whether the word at i is, or holds among other letters, a short switch with which its program does not ask.
func bypassShort(argv []string, i int) bool {
	letters, short := strings.CutPrefix(argv[i], "-")
	letters, _, _ = strings.Cut(letters, "=")
	if letters == "-yes" {
		letters = "y"
	}
	if !short || strings.HasPrefix(letters, "-") || strings.Trim(letters, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return false
	}
	starts := func(programs []string) bool {
		return slices.ContainsFunc(argv[:i], func(word string) bool {
			k := Known{programs: programs}
			return k.starts(word) || k.starts(unversioned(word))
		})
	}
	return strings.ContainsAny(letters, "yY") && starts(autoYes) || strings.Contains(letters, "f") && starts(forced)
}

// unversioned is the name of a package without the version that npx is given behind it.
func unversioned(word string) string {
	if at := strings.LastIndex(word, "@"); at > 0 && !filepath.IsAbs(word) {
		return word[:at]
	}
	return word
}

// approvesNever reports whether a word, with the one before it, sets Codex's policy of never asking.
func approvesNever(before, word string) bool {
	text := squeeze(word)
	switch {
	case strings.Contains(text, "approvalpolicy=never"), strings.Contains(text, "askforapproval=never"):
		return true
	case strings.HasPrefix(word, "-a") && (text == "anever" || text == "a=never"):
		return true
	}
	return text == "never" && (before == "-a" || strings.HasPrefix("askforapproval", squeeze(strings.TrimLeft(before, "-"))) && strings.HasPrefix(before, "--"))
}

// bypassVariable reports whether a variable makes an agent act without asking.
func bypassVariable(v EnvVar) bool {
	return bypassValue(v.Name+"="+v.Value) || squeeze(v.Value) == "yolo" || strings.HasPrefix(squeeze(v.Name), "copilotallowall")
}

// squeeze drops what spellings of one name differ by: case, dashes, underscores, blanks and quotes.
func squeeze(text string) string {
	return strings.ToLower(strings.Map(func(c rune) rune {
		if strings.ContainsRune("-_ \t\"'`", c) {
			return -1
		}
		return c
	}, text))
}
