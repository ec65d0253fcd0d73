// Package permits judges the permission questions of agents, and keeps those that wait for a person.
//
// A question is the agent's own claim: nothing here proves that the agent then does what it asked for. The sandbox enforces; this package
// decides who is asked. It runs nothing and reads no file of the agent's. Rule of thumb: what is not understood waits for a person.
//
// Between the judgment of a path and its use the agent, or another program, can replace a folder with a link. No judgment by
// name can exclude that. Only the sandbox holds then.
package permits

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"drawbridge/relay/agents/acp"
	"drawbridge/relay/runner/settings"
)

// Bounds of a question, in bytes. A larger one cannot be shown whole, so that nobody can say yes to it.
const (
	MaxArguments = 128 << 10
	maxTitle     = 8 << 10
	maxPathBytes = 32 << 10
)

// Kinds of questions, as permissions: of relay.yaml names them.
const (
	Read    = "read"
	Edit    = "edit"
	Execute = "execute"
	Fetch   = "fetch"
	Other   = "other"
)

// Subject is a question and where it comes from.
type Subject struct {
	// Agent is the entry of relay.yaml, Session the bridge's name of the conversation, and Dir the absolute folder of the workspace.
	Agent, Session, Dir string
	acp.Question
}

// Verdict is what a judgment came to.
type Verdict struct {
	// Allowed means that a rule allows the call. Otherwise it waits for a person, or is refused where Unfit is set.
	Allowed bool
	// Unfit means that nobody can be asked, because the question cannot be shown whole.
	Unfit bool
	// Kind is one of the kinds above.
	Kind string
	// Reason says why, for people.
	Reason string
	// Hash names exactly this call: entry, session, workspace, kind, tool, arguments and paths. It is the same for the same call in
	// another process of the agent.
	Hash string
	// Arguments are the canonical arguments, "" where the agent gave none that can be read.
	Arguments string
}

// KindOf maps an agent's word for a tool call to a kind of permissions:. What is not known, and what removes or moves files, is other.
func KindOf(word string) string {
	switch word {
	case "read", "search":
		return Read
	case "edit":
		return Edit
	case "execute":
		return Execute
	case "fetch":
		return Fetch
	default:
		return Other
	}
}

// Judge decides a question by the rules of its entry. It looks at the file system for paths, and changes nothing.
func Judge(a settings.Agent, s Subject) Verdict {
	v := Verdict{Kind: KindOf(s.Kind)}
	args, canonical, err := readArguments(s.Arguments)
	v.Arguments = canonical
	if err != nil {
		// The exact bytes still name the call.
		v.Arguments = ""
		canonical = "unread:" + string(s.Arguments)
	}
	v.Hash = hashOf(s, canonical)
	if err == nil {
		err = allowed(a, s, args)
	}
	switch {
	case !s.Allowable:
		v.Unfit, v.Reason = true, "the agent does not offer an answer that allows only this call"
	case err == nil:
		v.Allowed = true
	case !utf8.ValidString(s.Title) || len(s.Title) > maxTitle || pathBytes(s.Paths) > maxPathBytes || len(s.Arguments) > MaxArguments || len(v.Arguments) > 2*MaxArguments:
		v.Unfit, v.Reason = true, fmt.Sprintf("the question is larger than %d KiB or not text, so the relay cannot show all of it to a person", MaxArguments>>10)
	default:
		v.Reason = err.Error()
	}
	return v
}

// pathBytes is how much there is to show of paths, or too much for any that are not text.
func pathBytes(paths []string) (n int) {
	for _, path := range paths {
		if !utf8.ValidString(path) {
			return maxPathBytes + 1
		}
		n += len(path) + 16
	}
	return n
}

// errAsk means that the entry wants a person for each question of this kind.
var errAsk = errors.New("relay.yaml requires a person's approval for this")

// allowed returns nil when a rule of the entry allows the call, and else why not.
func allowed(a settings.Agent, s Subject, args map[string]any) error {
	p := a.Permissions
	switch KindOf(s.Kind) {
	case Read:
		return byPath(p.Read, s, args, false)
	case Edit:
		return byPath(p.Edit, s, args, true)
	case Execute:
		return byCommand(a, s, args)
	case Fetch:
		if p.Fetch != settings.PermitAllow {
			return errAsk
		}
		return nil
	}
	switch {
	case p.Other != settings.PermitAllow:
		return errAsk
	case a.Sandbox == nil:
		return errors.New("other: allow applies only in a sandbox")
	case s.Kind == "switch_mode":
		return errors.New("the agent asks for another mode, and may ask less often in that mode")
	}
	return nil
}

func byPath(word string, s Subject, args map[string]any, edit bool) error {
	if word != settings.PermitAllow {
		return errAsk
	}
	return inside(s, args, edit)
}

func byCommand(a settings.Agent, s Subject, args map[string]any) error {
	if a.Permissions.Execute == settings.PermitAllow {
		if a.Sandbox == nil {
			return errors.New("execute: allow applies only in a sandbox")
		}
		return nil
	}
	if len(a.Permissions.Commands) == 0 {
		return errAsk
	}
	words, err := commandOf(s, args)
	if err != nil {
		return err
	}
	for _, rule := range a.Permissions.Commands {
		if Matches(rule, words) {
			return nil
		}
	}
	return errors.New("no rule of relay.yaml allows this command")
}

// Programs whose first argument says what they do, so that a rule may leave the rest open; and such arguments that run what follows.
var (
	spoken   = strings.Fields("bazel bundle bun cargo dart deno dotnet flutter git go gradle just make mix mvn npm pip pnpm poetry rake swift uv yarn zig")
	launches = strings.Fields("run run-script exec x dlx tool create init eval repl shell start serve config bisect submodule filter-branch difftool mergetool rebase")
)

// maxRule bounds the arguments from which a rule is made, in bytes. It is looked for at each look at the open questions.
const maxRule = 16 << 10

// ruleFor returns a rule that allows the command of a question: for a program whose first argument says what it does, that argument and any further
// ones; else exactly this command.
func ruleFor(e entry) (settings.Command, error) {
	if e.Kind != Execute {
		return settings.Command{}, errors.New("a rule can allow only commands; to allow every call of this kind, write below permissions: in relay.yaml: " + e.Kind + ": allow")
	}
	if len(e.Arguments) > maxRule {
		return settings.Command{}, errors.New("the command is too long for a rule")
	}
	args, _, err := readArguments(json.RawMessage(e.Arguments))
	if err != nil {
		return settings.Command{}, err
	}
	words, err := commandOf(Subject{Dir: e.Dir}, args)
	if err != nil {
		return settings.Command{}, err
	}
	rule := settings.Command{Program: words[0], Args: words[1:], Exact: true}
	if len(words) > 1 && slices.Contains(spoken, filepath.Base(words[0])) && subcommand.MatchString(words[1]) && !slices.Contains(launches, words[1]) {
		rule = settings.Command{Program: words[0], Args: words[1:2]}
	}
	if err := rule.Check(); err != nil {
		return settings.Command{}, err
	}
	if !Matches(rule, words) {
		return settings.Command{}, errors.New("the command has an argument that can start another program")
	}
	return rule, nil
}

// subcommand is a word that names what a program does, and no file, flag or setting.
var subcommand = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// readArguments reads the arguments of a call, and writes them in the one form that is hashed and shown.
func readArguments(raw json.RawMessage) (map[string]any, string, error) {
	value, err := parse(raw)
	if err != nil {
		return nil, "", err
	}
	object, is := value.(map[string]any)
	if !is || len(object) == 0 {
		return nil, "", errors.New("the agent did not give the exact arguments")
	}
	return object, canonical(object), nil
}
