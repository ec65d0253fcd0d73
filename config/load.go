package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"drawbridge/internal/trust"
	"drawbridge/internal/yamlconf"
	"drawbridge/policy"
)

// Load reads and checks bridge.yaml. Any problem means a nil Bridge, and all
// problems come at once. getenv is os.LookupEnv outside of tests; nil is an empty
// environment. The allowlist that the file names is not read: see LoadAllowlist.
func Load(path string, getenv func(string) (string, bool)) (*Bridge, []Problem) {
	src, problem := open(path)
	if problem != nil {
		return nil, []Problem{*problem}
	}
	src.Getenv = getenv
	return ParseBridge(src)
}

// LoadToTalk is Load for a caller that only talks to a bridge that runs: it needs the bridge's addresses and the operator's
// token. Nothing else has to be right here, such as a variable that is set where the bridge was started. Only Listen,
// Operator and Token of what it returns count.
func LoadToTalk(path string, getenv func(string) (string, bool)) (*Bridge, []Problem) {
	src, problem := open(path)
	if problem != nil {
		return nil, []Problem{*problem}
	}
	src.Getenv = getenv
	b, problems := readBridge(src)
	problems = slices.DeleteFunc(problems, func(p Problem) bool {
		return !slices.Contains([]string{"", "listen", "token"}, p.Key) && !strings.HasPrefix(p.Key, "operator")
	})
	if len(problems) > 0 {
		return nil, problems
	}
	return b, nil
}

// LoadToJudge is Load for a caller that only asks what the gate would say. Secrets, addresses and the database need not be
// right. Only Orchestrators, Runtimes, Relays, Parser and Tools of what it returns count.
func LoadToJudge(path string, getenv func(string) (string, bool)) (*Bridge, []Problem) {
	src, problem := openAny(path)
	if problem != nil {
		return nil, []Problem{*problem}
	}
	src.Getenv = getenv
	b, problems := readBridge(src)
	problems = slices.DeleteFunc(problems, func(p Problem) bool {
		top, _, _ := strings.Cut(p.Key, ".")
		top, _, _ = strings.Cut(top, "[")
		return p.Key != "" && (!slices.Contains([]string{"orchestrators", "relays", "parser", "tools"}, top) || strings.HasSuffix(p.Key, ".token"))
	})
	if len(problems) > 0 {
		return nil, problems
	}
	return b, nil
}

// LoadKeyless is Load for whoever does without the API key, such as the receiver alone: what cursor.key refers to need not be
// there, and when it is, it is not in what LoadKeyless returns.
func LoadKeyless(path string, getenv func(string) (string, bool)) (*Bridge, []Problem) {
	src, problem := open(path)
	if problem != nil {
		return nil, []Problem{*problem}
	}
	src.Getenv = getenv
	b, problems := readBridge(src)
	problems = slices.DeleteFunc(problems, func(p Problem) bool { return p.Key == "cursor.key" })
	if len(problems) > 0 {
		return nil, problems
	}
	b.Cursor.Key = Secret{}
	return b, nil
}

// ReadSamples reads from existing files the values that SampleBridge and SampleAllowlist write: the first orchestrator's
// repository, the API's address, the allowed repositories, the actions and their relay. A file that is missing leaves its
// values empty, and Repos is nil then. Only a file that cannot be read is a problem; other faults are for Load to report.
func ReadSamples(bridge, allowlist string, getenv func(string) (string, bool)) (v SampleValues, problems []Problem) {
	if src, problem := openAny(bridge); problem == nil {
		src.Getenv = getenv
		b := defaults()
		file, found := yamlconf.Read(src, &b)
		if unreadable(file, found) {
			return v, found
		}
		v.CursorURL = b.Cursor.URL
		if len(b.Orchestrators) > 0 {
			v.Repo = b.Orchestrators[0].Repo
		}
	} else if _, err := os.Stat(bridge); err == nil {
		return v, []Problem{*problem}
	}
	if _, err := os.Stat(allowlist); err != nil {
		return v, nil
	}
	rules, problems := PreviewAllowlist(allowlist)
	v.Repos = []string{}
	for _, r := range rules.Repos {
		v.Repos = append(v.Repos, r.Pattern)
	}
	for _, r := range rules.Actions {
		v.Relay = cmp.Or(v.Relay, r.Relay)
		v.Actions = append(v.Actions, r.ID)
	}
	return v, problems
}

// ParseBridge is Load for a text that is in memory already.
func ParseBridge(src Source) (*Bridge, []Problem) {
	b, problems := readBridge(src)
	if len(problems) > 0 {
		return nil, problems
	}
	return b, nil
}

// readBridge returns what could be read beside all that is wrong with it.
func readBridge(src Source) (*Bridge, []Problem) {
	b := defaults()
	file, problems := yamlconf.Read(src, &b)
	b.file, b.digest = file, sha256.Sum256(src.Data)
	if unreadable(file, problems) {
		return &b, problems
	}
	c := checker{file: file, reported: keysOf(problems)}
	c.bridge(&b, src.Dir)
	return &b, orWithoutKey(append(problems, c.problems...))
}

// orWithoutKey adds to each problem of the API key that a bridge can do without.
func orWithoutKey(problems []Problem) []Problem {
	for i := range problems {
		if problems[i].Key == "cursor.key" {
			problems[i].Remedy += ", or remove cursor.key to do without agents of the cloud"
		}
	}
	return problems
}

// CloudOff reports whether the file has no key for the Cloud Agents API, so that nothing can be launched there.
func (b *Bridge) CloudOff() bool { return b.file == nil || !b.file.Has("cursor.key") }

// cloudOff is what a bridge without a key for the Cloud Agents API does not do.
const cloudOff = "agents of the Cloud Agents API are off: the bridge refuses to launch them, and turns of existing ones wait"

// CloudNotice says what is off without a key for the Cloud Agents API; "" with one. wanted reports whether an orchestrator
// would live there; then Warnings has it, too.
func (b *Bridge) CloudNotice() (text string, wanted bool) {
	if !b.CloudOff() {
		return "", false
	}
	return "cursor.key is not set, so " + cloudOff, slices.ContainsFunc(b.Orchestrators, func(o Orchestrator) bool { return o.Runtime == "" })
}

// Digest names the text of the file that b was read from, so that a running bridge can be told from its file. It tells
// nothing of secrets, which do not stand in the file.
func (b *Bridge) Digest() string { return hex.EncodeToString(b.digest[:8]) }

// unreadable reports whether nothing of a file could be read, so that checking
// its values would only call every one of them missing.
func unreadable(file *yamlconf.File, problems []Problem) bool {
	return len(problems) > 0 && !file.Has("")
}

// ServeProblems lists what keeps a Bridge from serving, beyond what Load demands
// of every use of the file: scripts that others can change.
func (b *Bridge) ServeProblems() (problems []Problem) {
	for _, name := range sortedKeys(b.Runtimes) {
		var why *trust.Problem
		if b.Runtimes[name].Kind != kindScripted {
			continue
		}
		if _, err := trust.Read(b.Runtimes[name].Script, maxScript); errors.As(err, &why) {
			problems = append(problems, b.file.Problem("runtimes."+name+".script", b.Runtimes[name].Script, "cannot be used: "+why.Reason, why.Remedy))
		}
	}
	return problems
}

// maxScript is the largest script of a runtime, in bytes.
const maxScript = 16 << 20

// Secrets are the texts of b that nobody else may learn. The caller does not keep them.
func (b *Bridge) Secrets() []string {
	secrets := []Secret{b.Token, b.Key, b.Cursor.Key, b.Metrics.Token, b.Alerts.Secret, b.Alerts.OldSecret}
	secrets = append(secrets, b.OldKeys...)
	for _, p := range b.Operators {
		secrets = append(secrets, p.Token)
	}
	for _, r := range b.Relays {
		secrets = append(secrets, r.Token)
	}
	for _, r := range b.Runtimes {
		secrets = append(secrets, r.Key)
	}
	for _, u := range b.OpenAI.Upstreams {
		secrets = append(secrets, u.Key)
	}
	var texts []string
	for _, s := range secrets {
		if s.Len() > 0 {
			texts = append(texts, s.Reveal())
		}
	}
	if b.file.ByReference("alerts.url") {
		texts = append(texts, b.Alerts.URL)
	}
	if b.file.ByReference("database") { // an address with a password
		texts = append(texts, b.Database)
	}
	return texts
}

// Rules completes the rules of an allowlist with what only bridge.yaml knows: the
// orchestrators' own repositories, and the relay of actions that name none.
func (b *Bridge) Rules(rules policy.Rules) (policy.Rules, []Problem) {
	for _, o := range b.Orchestrators {
		rules.OperatorRepos = append(rules.OperatorRepos[:len(rules.OperatorRepos):len(rules.OperatorRepos)], o.Repo)
		if o.Spawn == "own" {
			rules.Own = append(rules.Own[:len(rules.Own):len(rules.Own)], policy.OwnRule{Agent: o.Name, Repo: o.Repo})
		}
	}
	problems := b.runtimesOf(rules.Repos)
	actions := make([]policy.ActionRule, len(rules.Actions))
	for i, rule := range rules.Actions {
		relay, reason, remedy := b.relayOf(rule.Relay)
		if reason != "" {
			problems = append(problems, Problem{At: rule.At, Key: "actions." + rule.ID + ".relay", Value: rule.Relay, Reason: reason, Remedy: remedy})
		}
		rule.Relay = relay
		actions[i] = rule
	}
	rules.Actions = actions
	return rules, problems
}

// Policy is Rules, compiled. Any problem means a nil Policy.
func (b *Bridge) Policy(rules policy.Rules) (*policy.Policy, []Problem) {
	rules, problems := b.Rules(rules)
	p, found := policy.New(rules)
	problems = append(problems, Problems(found)...)
	if len(problems) > 0 {
		return nil, problems
	}
	return p, nil
}

// runtimesOf checks the runtimes that rules name.
func (b *Bridge) runtimesOf(rules []policy.RepoRule) (problems []Problem) {
	for i, rule := range rules {
		if rule.Runtime == "" {
			continue
		}
		if reason, remedy := b.takesRule(rule); reason != "" {
			problems = append(problems, Problem{At: rule.At, Key: fmt.Sprintf("repos[%d].runtime", i), Value: rule.Runtime, Reason: reason, Remedy: remedy})
		}
	}
	return problems
}

// takesRule says why a rule may not name its runtime; "" when it may. A chat model needs no clone, so that its repository is a name alone.
func (b *Bridge) takesRule(rule policy.RepoRule) (reason, remedy string) {
	r := b.Runtimes[rule.Runtime]
	switch {
	case r.Kind == kindChat && strings.HasPrefix(strings.ToLower(rule.Pattern), "local/"):
		return "is a runtime of kind chat, and its agents cannot use a clone on a machine", "write a repository such as github.com/me/team in this rule, or name a runtime of kind relay"
	case r.Kind == kindChat:
		return "", ""
	}
	return b.hostsClones(rule.Runtime)
}

// hostsClones says why a rule or an orchestrator may not name a runtime for a clone on a machine; "" when it may.
func (b *Bridge) hostsClones(runtime string) (reason, remedy string) {
	r, known := b.Runtimes[runtime]
	switch {
	case !known:
		return "is not a runtime", "add it below runtimes in bridge.yaml, with kind: relay"
	case r.Kind != kindRelay:
		return "is a runtime of kind " + r.Kind + ", and its agents cannot use a clone on a machine", "name a runtime of kind relay"
	}
	return "", ""
}

// relayOf returns the relay for an action that names one or none. A name that has no address here is one that dials in; whether
// it is enrolled is not for a file to know. An action that names none goes to the only address there is, or else to whichever
// enrolled relay offers it.
func (b *Bridge) relayOf(name string) (relay, reason, remedy string) {
	names := sortedKeys(b.Relays)
	switch {
	case name != "":
		return name, "", ""
	case len(names) > 1:
		return "", "is required, because several relays are configured", "use " + oneOf(names) + ", or the name of a relay that dials in"
	case len(names) == 1:
		return names[0], "", ""
	}
	return "", "", ""
}

// Problems gives the policy's problems and warnings this package's type.
func Problems(found []policy.Problem) []Problem {
	out := make([]Problem, len(found))
	for i, p := range found {
		out[i] = Problem(p)
	}
	return out
}

// open reads a file that others cannot change, with a remedy for each way it can fail.
func open(path string) (Source, *Problem) {
	src := Source{Name: path, Dir: filepath.Dir(path)}
	data, err := trust.Read(path, yamlconf.MaxSize)
	src.Data = data
	return src, fileProblem(path, err)
}

// openAny is open for a file that decides nothing here, so that others may change it.
func openAny(path string) (Source, *Problem) {
	src := Source{Name: path, Dir: filepath.Dir(path)}
	f, err := os.Open(path)
	if err != nil {
		return src, fileProblem(path, err)
	}
	defer f.Close()
	// One byte more than is accepted, so that the reader can tell.
	src.Data, err = io.ReadAll(io.LimitReader(f, yamlconf.MaxSize+1))
	return src, fileProblem(path, err)
}

func fileProblem(path string, err error) *Problem {
	var why *trust.Problem
	var pathErr *fs.PathError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return &Problem{At: path, Reason: "does not exist", Remedy: "create it with: drawbridge init"}
	case errors.Is(err, fs.ErrPermission):
		return &Problem{At: path, Reason: "may not be read by this user", Remedy: fmt.Sprintf("change its owner or mode, or run as its owner (this is user %d)", os.Getuid())}
	case errors.Is(err, syscall.EISDIR):
		return &Problem{At: path, Reason: "is not a file", Remedy: "name the file itself"}
	case errors.As(err, &why):
		return &Problem{At: path, Reason: why.Reason, Remedy: why.Remedy}
	case errors.As(err, &pathErr):
		err = pathErr.Err
	}
	return &Problem{At: path, Reason: "cannot be read: " + err.Error(), Remedy: "check the path"}
}
