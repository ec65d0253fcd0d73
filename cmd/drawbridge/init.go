package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"drawbridge/cmd/drawbridge/internal/handout"
	"drawbridge/config"
	"drawbridge/internal/logs"
	"drawbridge/internal/trust"
	"drawbridge/internal/yamlconf"
	"drawbridge/policy"
	"drawbridge/relay/runner/settings"
)

type initCmd struct {
	Dir    string `arg:"" optional:"" default:"." help:"Write into this folder, and make the folder if it is missing." type:"path"`
	Repo   string `help:"Name the orchestrator's own repository. Without this flag, init asks for the repository on a terminal." placeholder:"REPO"`
	Allow  string `help:"Allow agents on this repository. Without this flag, init asks for the repository on a terminal." placeholder:"REPO"`
	Relay  string `help:"Give this name to the machine that runs actions. The default is laptop." placeholder:"NAME"`
	Local  bool   `help:"Set up agents that are installed on this machine. This needs no API key."`
	Tools  string `help:"With --local, let all agents use these programs of yours, such as go,cargo. all means every compiler and package manager that init finds, none means no program. Without this flag, init asks on a terminal." placeholder:"NAMES"`
	Cloud  string `help:"Use the Cloud Agents API at this address instead of Cursor's own, such as that of drawbridge cloudsim." placeholder:"URL"`
	Openai string `help:"Let programs that use OpenAI's API call the models of this OpenAI-compatible endpoint, and the bridge's agents." placeholder:"URL"`
}

// Help shows an example.
func (initCmd) Help() string {
	return "init keeps files that exist, and refuses flags that differ from them. It makes new keys and tokens, which only you can read.\n\nExample:\n  drawbridge init ~/bridge --repo github.com/me/agent-env --allow github.com/me/my-app\n  drawbridge init --local ~/bridge\n  drawbridge init --local ~/bridge --openai http://127.0.0.1:11434/v1\n  drawbridge init try --repo github.com/me/agent-env --allow github.com/me/my-app --cloud http://127.0.0.1:7411"
}

// Run writes what is missing.
func (c initCmd) Run(ctx context.Context, a app) error {
	if u, err := url.Parse(c.Openai); err != nil || (c.Openai != "" && (u.Host == "" || (u.Scheme != "https" && !loopbackURL(c.Openai)))) {
		return usageError{fmt.Errorf("--openai %+.80q is not an address of an endpoint; write https://…/v1, or http://127.0.0.1:11434/v1 for one on this machine", c.Openai)}
	}
	if c.Local {
		return c.local(ctx, a)
	}
	if c.Tools != "" {
		return usageError{errors.New("--tools is for agents of this machine; add --local")}
	}
	if err := c.valid(); err != nil {
		return usageError{err}
	}
	there, err := c.existing(a)
	if err != nil {
		return err
	}
	if err := c.complete(there, a.question()); err != nil {
		return usageError{err}
	}
	if err := c.valid(); err != nil {
		return usageError{err}
	}
	return c.write(a)
}

// valid checks each value by itself; a value that was not given is valid.
func (c initCmd) valid() error {
	for _, repo := range []string{c.Repo, c.Allow} {
		canonical, err := policy.CanonicalRepo(repo)
		if repo != "" && err != nil {
			return err
		}
		if canonical.Local() {
			return fmt.Errorf("%s is a clone on a machine, which agents of the cloud cannot reach; write github.com/owner/name", canonical)
		}
	}
	if c.Repo != "" && sameRepo(c.Repo, c.Allow) {
		return fmt.Errorf("--allow %s is the orchestrator's own repository, where it may not launch agents; name the repository for delegated work", c.Allow)
	}
	if c.Relay != "" && !relayName.MatchString(c.Relay) {
		return fmt.Errorf("--relay %+.40q is not a name for a relay; use a to z, 0 to 9, '_', '.' and '-', such as laptop", c.Relay)
	}
	if u, err := url.Parse(c.Cloud); err != nil || (c.Cloud != "" && (u.Host == "" || (u.Scheme != "https" && u.Scheme != "http"))) {
		return fmt.Errorf("--cloud %+.80q is not an address; write https://…, or http://127.0.0.1:7411 for drawbridge cloudsim", c.Cloud)
	}
	return nil
}

// sameRepo reports whether two spellings name one repository.
func sameRepo(x, y string) bool {
	left, err := policy.CanonicalRepo(x)
	right, bad := policy.CanonicalRepo(y)
	return err == nil && bad == nil && left == right
}

// existing reads the values of files that are there, and refuses flags that differ from them: init changes no file.
func (c initCmd) existing(a app) (config.SampleValues, error) {
	at := func(name string) string { return filepath.Join(c.Dir, name) }
	there, problems := config.ReadSamples(at("bridge.yaml"), at("allowlist.yaml"), a.getenv)
	if len(problems) > 0 {
		return there, a.problems(c.Dir, problems)
	}
	var differs []string
	compare := func(flag, given, file, value string, same bool) {
		if given != "" && value != "" && !same {
			differs = append(differs, fmt.Sprintf("%s %s, but %s says %s", flag, given, at(file), value))
		}
	}
	compare("--repo", c.Repo, "bridge.yaml", there.Repo, sameRepo(c.Repo, there.Repo))
	compare("--cloud", c.Cloud, "bridge.yaml", there.CursorURL, c.Cloud == there.CursorURL)
	compare("--relay", c.Relay, "allowlist.yaml", there.Relay, c.Relay == there.Relay)
	compare("--allow", c.Allow, "allowlist.yaml", orNothing(there.Repos), slices.ContainsFunc(there.Repos, func(r string) bool { return r == c.Allow || sameRepo(r, c.Allow) }))
	if len(differs) > 0 {
		return there, usageError{fmt.Errorf("init does not change existing files:\n  %s\nLeave these flags out, edit the files, or choose another folder", strings.Join(differs, "\n  "))}
	}
	return there, nil
}

// orNothing lists what an allowlist allows; "" means that there is not an allowlist yet.
func orNothing(repos []string) string {
	if repos != nil && len(repos) == 0 {
		return "nothing"
	}
	return strings.Join(repos, ", ")
}

// complete takes what was not given from the files that are there, or asks for it. ask is nil without a terminal.
func (c *initCmd) complete(there config.SampleValues, ask func(string) (string, error)) error {
	c.Repo, c.Cloud = cmp.Or(c.Repo, there.Repo), cmp.Or(c.Cloud, there.CursorURL)
	c.Relay = cmp.Or(c.Relay, there.Relay, "laptop")
	if c.Allow == "" && len(there.Repos) > 0 {
		c.Allow = there.Repos[0]
	}
	for _, f := range []struct {
		value          *string
		flag, question string
		needed         bool
	}{
		{&c.Repo, "--repo", "The orchestrator's own repository (github.com/owner/name): ", true},
		{&c.Allow, "--allow", "A repository that it may launch agents on (github.com/owner/name): ", there.Repos == nil},
	} {
		if *f.value != "" || !f.needed {
			continue
		}
		if ask == nil {
			return fmt.Errorf("%s is missing; give it as github.com/owner/name, for instance: drawbridge init %s --repo github.com/me/agent-env --allow github.com/me/my-app", f.flag, c.Dir)
		}
		answer, err := ask(f.question)
		if *f.value = strings.TrimSpace(answer); *f.value == "" {
			return fmt.Errorf("%s is missing, and nothing was written (%w)", f.flag, cmp.Or(err, errors.New("the answer was empty")))
		}
	}
	return nil
}

// question asks a person at the terminal; nil when standard input is not a terminal.
func (a app) question() func(string) (string, error) {
	if !logs.IsTerminal(a.stdin) {
		return nil
	}
	lines := bufio.NewReader(a.stdin)
	return func(question string) (string, error) {
		fmt.Fprint(a.stdout, question)
		return lines.ReadString('\n')
	}
}

// write writes the files that are missing.
func (c initCmd) write(a app) error {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if err := ownFolder(c.Dir); err != nil {
		return err
	}
	values := config.SampleValues{Repo: c.Repo, Repos: []string{c.Allow}, Relay: c.Relay, CursorURL: c.Cloud}
	files := []struct {
		name, text string
		mode       fs.FileMode
	}{
		{"bridge.yaml", config.SampleBridge(values), 0o600},
		{"allowlist.yaml", config.SampleAllowlist(values), 0o600},
		{"relay.yaml", settings.Sample, 0o600},
		{"bridge.key", secret(), 0o600},
		{"bridge.token", secret(), 0o600},
	}
	for _, f := range files {
		if err := a.writeNew(filepath.Join(c.Dir, f.name), f.text, f.mode); err != nil {
			return err
		}
	}
	page, err := c.page(a)
	if err != nil {
		return err
	}
	if err := a.writeNew(filepath.Join(c.Dir, "drawbridge.mdc"), page, 0o644); err != nil {
		return err
	}
	first, third := c.stepsFor()
	if _, err = fmt.Fprintf(a.stdout, initNext, c.Dir, first, third, c.Relay); err != nil {
		return err
	}
	return c.addOpenAI(a)
}

// ownFolder refuses a folder in which others could replace what init writes,
// because serve would refuse to read it from there.
func ownFolder(dir string) error {
	abs, err := filepath.Abs(dir)
	if err == nil {
		err = trust.Folders(abs)
	}
	if err != nil {
		return usageError{fmt.Errorf("%s: %w", dir, err)}
	}
	return nil
}

// relayName is what may name a relay in an allowlist and on the wire.
var relayName = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,63}$`)

const initNext = `
Next, in %[1]s:
  1. %[2]s
  2. look through allowlist.yaml and relay.yaml; what is not there is refused
  3. %[3]s
  4. drawbridge serve                  the bridge; it keeps this terminal
  5. drawbridge relay token %[4]s      in another terminal, here: prints the join command for the machine with the actions
  6. drawbridge-relay join drawbridge…  there, beside relay.yaml: what step 5 printed
  7. drawbridge-relay run               there; it keeps its terminal (or: drawbridge-relay install)
  8. drawbridge check                   here: lists all problems at once
`

// stepsFor are the steps that bring the API key, and the protocol page to the agent. A cloud on this machine is a simulated one, which needs neither.
func (c initCmd) stepsFor() (first, third string) {
	if loopbackURL(c.Cloud) {
		return "drawbridge cloudsim               the simulated cloud; it keeps a terminal of its own",
			"export CURSOR_API_KEY=…              in the terminal of step 4; drawbridge cloudsim --help names the key"
	}
	return "put the Cursor API key into the environment:   export CURSOR_API_KEY=…", "commit drawbridge.mdc as .cursor/rules/drawbridge.mdc into " + c.Repo
}

// secret returns 64 hex digits from the system's randomness.
func secret() string {
	b := make([]byte, 32)
	if _, err := rand.Read(b); err != nil {
		panic(err) // never happens; see crypto/rand
	}
	return hex.EncodeToString(b) + "\n"
}

// schemas are those of the files that init writes.
var schemas = map[string]string{"bridge.yaml": config.BridgeSchema, "allowlist.yaml": config.AllowlistSchema, "relay.yaml": settings.Schema}

// writeNew writes a file that does not exist yet, with its schema beside it, and says what it did.
func (a app) writeNew(path, text string, mode fs.FileMode) error {
	if schema, has := schemas[filepath.Base(path)]; has {
		line, err := yamlconf.KeepSchema(path, schema)
		if err != nil {
			return err
		}
		text = line + text
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		fmt.Fprintf(a.stdout, "kept    %s\n", path)
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := f.WriteString(text); err != nil {
		return errors.Join(err, f.Close())
	}
	fmt.Fprintf(a.stdout, "wrote   %s\n", path)
	return f.Close()
}

// page is the protocol page for the files of a folder.
func (c initCmd) page(a app) (string, error) {
	p, cfg, err := asking{}.rules(filepath.Join(c.Dir, "allowlist.yaml"), a)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	err = handout.Write(&text, p, pageOptions(cfg, ""))
	return text.String(), err
}
