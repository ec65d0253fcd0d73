package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"drawbridge/internal/httpx"
	"drawbridge/internal/yamlconf"
	"drawbridge/policy"
)

const (
	minSecret    = 32
	maxToken     = 4096
	maxOldKeys   = 8
	secretRemedy = "make one with: openssl rand -hex 32"
)

var (
	plainName = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,63}$`)
	visible   = regexp.MustCompile(`^[!-~]+$`)
	gitRef    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,254}$`)
)

// checker finds what is wrong with values that could be read.
type checker struct {
	file *yamlconf.File
	// reported holds the keys that have a problem already, so that a value which
	// could not even be read is not called missing as well.
	reported map[string]bool
	problems []Problem
}

// keysOf returns the keys that problems are about.
func keysOf(problems []Problem) map[string]bool {
	keys := make(map[string]bool, len(problems))
	for _, p := range problems {
		keys[p.Key] = true
	}
	return keys
}

func (c *checker) problem(key, value, reason, remedy string) {
	if !c.reported[key] {
		c.problems = append(c.problems, c.file.Problem(key, value, reason, remedy))
	}
}

func (c *checker) bridge(b *Bridge, dir string) {
	c.listen("listen", b.Listen)
	b.PublicURL = c.url("public_url", b.PublicURL)
	c.operator(b)
	c.token("token", b.Token)
	c.operators(b)
	c.metrics(b)
	c.keys(b)
	c.database(b.Database)
	if !isPostgres(strings.ToLower(b.Database)) {
		b.Database = absolute(dir, b.Database)
	}
	c.required("allowlist", b.Allowlist)
	c.path("allowlist", b.Allowlist)
	b.Allowlist = absolute(dir, b.Allowlist)
	c.path("files", b.Files)
	if b.Files != "" {
		b.Files = absolute(dir, b.Files)
	}
	for i := range b.Orchestrators {
		c.path(fmt.Sprintf("orchestrators[%d].workspace", i), b.Orchestrators[i].Workspace)
		if o := &b.Orchestrators[i]; o.Workspace != "" {
			o.Workspace = absolute(dir, o.Workspace)
		}
	}
	c.cursor(&b.Cursor)
	c.span("poll.min", b.Poll.Min, 100*time.Millisecond, 10*time.Minute)
	c.span("poll.max", b.Poll.Max, b.Poll.Min, time.Hour)
	c.orchestrators(b)
	c.runtimes(b, dir)
	c.mail(b.Mail)
	c.tools(b.Tools)
	c.chat(&b.Chat, b.Orchestrators)
	c.openAI(b)
	c.alerts(b.Alerts)
	for _, n := range sortedKeys(b.Relays) {
		b.Relays[n] = c.relay(n, b.Relays[n])
	}
}

func (c *checker) required(key, value string) {
	if value == "" {
		c.problem(key, "", "is required", "write a value, or remove the key for the default")
	}
}

func (c *checker) listen(key, value string) {
	_, port, err := net.SplitHostPort(value)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		c.problem(key, value, "is not an address", "write host:port, such as 127.0.0.1:7410")
	}
}

// url checks an address that requests or webhooks go to and returns it without a
// slash at the end. Empty is accepted; required checks that.
func (c *checker) url(key, value string) string {
	if value == "" {
		return ""
	}
	const remedy = "write https://host, or http:// for this machine only"
	u, err := url.Parse(value)
	switch {
	case strings.Contains(value, "@"):
		// What stands before the @ may be a password.
		c.problem(key, "", "holds a user name or password", "remove everything before the @")
	case err != nil, u.Host == "", u.Hostname() == "", u.Scheme != "https" && u.Scheme != "http":
		c.problem(key, value, "is not an http or https address", remedy)
	case u.RawQuery != "", u.Fragment != "", u.ForceQuery, !visible.MatchString(value):
		c.problem(key, value, "has a ?, a # or a blank", remedy)
	case u.Scheme == "http" && !httpx.Loopback(u.Hostname()):
		c.problem(key, value, "would send secrets in the clear", remedy)
	}
	return strings.TrimRight(value, "/")
}

// token checks a bearer token, which must fit into a header.
func (c *checker) token(key string, s Secret) {
	switch {
	case s.Len() == 0:
		c.problem(key, "", "is required", "write it to a file and use ${file:path}, or use ${VAR}; "+secretRemedy)
	case s.Len() < minSecret:
		c.problem(key, "", fmt.Sprintf("is shorter than %d characters", minSecret), secretRemedy)
	case s.Len() > maxToken:
		c.problem(key, "", fmt.Sprintf("is longer than %d characters", maxToken), secretRemedy)
	case !visible.MatchString(s.Reveal()):
		c.problem(key, "", "holds a blank, a line end or a character that is not ASCII", secretRemedy)
	}
}

// maxOperators bounds how many people the file names. Each request is compared with all tokens.
const maxOperators = 100

func (c *checker) operators(b *Bridge) {
	if len(b.Operators) > maxOperators {
		c.problem("operators", "", fmt.Sprintf("has more than %d people", maxOperators), "remove some")
	}
	names := sortedKeys(b.Operators)
	for _, n := range names {
		at, p := "operators."+n, b.Operators[n]
		c.name(at, n)
		if word := policy.SoleReservedName(n); word != "" {
			c.problem(at, "", "looks like "+word+", which the bridge keeps", "use the person's own name")
		}
		c.token(at+".token", p.Token)
		if !c.file.Has(at + ".role") {
			c.problem(at+".role", "", "is required", "write viewer, approver or admin")
		}
		used := 0
		for _, secret := range b.Secrets() {
			if secret == p.Token.Reveal() {
				used++
			}
		}
		if used > 1 {
			c.problem(at+".token", "", "is the same as another secret of this file", "give each person a token of their own; "+secretRemedy)
		}
	}
}

func (c *checker) metrics(b *Bridge) {
	t := b.Metrics.Token
	if t.Len() == 0 {
		return
	}
	c.token("metrics.token", t)
	if t.Equal(b.Token) || t.Equal(b.Key) {
		c.problem("metrics.token", "", "is the same as token or key", "use a separate secret that only reads the metrics; "+secretRemedy)
	}
}

func (c *checker) keys(b *Bridge) {
	c.key("key", b.Key)
	if b.Key.Len() > 0 && b.Key.Equal(b.Token) {
		c.problem("key", "", "is the same as token", "use two secrets; "+secretRemedy)
	}
	if len(b.OldKeys) > maxOldKeys {
		c.problem("old_keys", "", fmt.Sprintf("has more than %d keys", maxOldKeys), "remove the oldest")
	}
	for i, old := range b.OldKeys {
		at := fmt.Sprintf("old_keys[%d]", i)
		c.key(at, old)
		if old.Len() > 0 && old.Equal(b.Key) {
			c.problem(at, "", "is the same as key", "remove it")
		}
	}
}

func (c *checker) key(at string, s Secret) {
	switch {
	case s.Len() == 0:
		c.problem(at, "", "is required", "write it to a file and use ${file:path}; "+secretRemedy)
	case s.Len() < minSecret:
		c.problem(at, "", fmt.Sprintf("is shorter than %d bytes", minSecret), secretRemedy)
	}
}

func (c *checker) cursor(u *Cursor) {
	if u.Key.Len() > 0 && !visible.MatchString(u.Key.Reveal()) {
		c.problem("cursor.key", "", "holds a blank, a line end or a character that is not ASCII", "copy the key again")
	}
	if u.Key.Len() == 0 && c.file.Has("cursor.key") {
		c.problem("cursor.key", "", "is empty", "set it")
	}
	c.required("cursor.url", u.URL)
	u.URL = c.url("cursor.url", u.URL)
	if u.Model != "" && (!visible.MatchString(u.Model) || len(u.Model) > 200) {
		c.problem("cursor.model", u.Model, "is not the name of a model", "use a name that GET /v1/models lists, or remove the key")
	}
	c.span("cursor.timeout", u.Timeout, time.Second, 10*time.Minute)
	if u.V0Settle != 0 {
		c.span("cursor.v0_settle", u.V0Settle, 2*u.Timeout, 7*24*time.Hour)
	}
}

// joinPolicy is how results of several subagents may come back; see Orchestrator.
var joinPolicy = regexp.MustCompile(`^(|each|all|any|[1-9][0-9]?|100)$`)

const maxJoinDeadline = 30 * 24 * time.Hour

func (c *checker) orchestrators(b *Bridge) {
	list := b.Orchestrators
	first := make(map[string]bool, len(list))
	for i := range list {
		o, at := &list[i], fmt.Sprintf("orchestrators[%d]", i)
		c.name(at+".name", o.Name)
		if word := policy.SoleReservedName(o.Name); word != "" {
			c.problem(at+".name", o.Name, "looks like "+word+", which the bridge keeps for people and itself", "name the orchestrator after its task, such as main or docs")
		}
		if o.Name != "" && first[o.Name] {
			c.problem(at+".name", o.Name, "is given twice", "give each orchestrator its own name")
		}
		first[o.Name] = true
		repo, err := policy.CanonicalRepo(o.Repo)
		if err != nil {
			c.problem(at+".repo", o.Repo, "is not a repository", err.Error())
		}
		o.Repo = string(repo)
		if repo.Local() {
			if reason, remedy := b.hostsClones(o.Runtime); reason != "" {
				c.problem(at+".runtime", o.Runtime, reason+" (for "+o.Repo+", a clone on a machine)", remedy)
			}
		}
		if o.Ref != "" && (!gitRef.MatchString(o.Ref) || strings.Contains(o.Ref, "..")) {
			c.problem(at+".ref", o.Ref, "is not a branch, tag or commit", "write its plain name, such as main")
		}
		if !joinPolicy.MatchString(o.Join) {
			c.problem(at+".join", o.Join, "is not known", "use each, all, any or a number from 1 to 100")
		}
		if o.JoinDeadline != 0 {
			c.span(at+".join_deadline", o.JoinDeadline, time.Second, maxJoinDeadline)
		}
		c.toolsets(at+".toolsets", o.Toolsets)
		c.blocks(at+".blocks", o.Blocks)
	}
}

// toolsetNames are the sets of the MCP door.
var toolsetNames = []string{"bridge", "team", "threads", "channels", "memory"}

func (c *checker) toolsets(at string, list []string) {
	for i, name := range list {
		switch {
		case !slices.Contains(toolsetNames, name):
			c.problem(at, name, "is not a toolset", "use "+oneOf(toolsetNames))
		case slices.Contains(list[:i], name):
			c.problem(at, name, "is given twice", "name each toolset once")
		}
	}
}

// Kinds of runtimes. A relay hosts the agents of kindRelay.
const (
	kindRelay    = "relay"
	kindScripted = "scripted"
)

// cloudRuntime is what the file may call the Cloud Agents API.
const cloudRuntime = "cursor"

func (c *checker) runtimes(b *Bridge, dir string) {
	names, scripted := sortedKeys(b.Runtimes), false
	for _, n := range names {
		at, r := "runtimes."+n, b.Runtimes[n]
		c.name(at, n)
		c.toolsets(at+".toolsets", r.Toolsets)
		if n == cloudRuntime || n == "v0" || n == "v1" {
			c.problem(at, "", "is a name of the Cloud Agents API", "choose another")
		}
		if !c.file.Has(at + ".kind") {
			c.problem(at+".kind", "", "is required", "write relay, chat or scripted")
		}
		switch r.Kind {
		case kindRelay:
			c.relayRuntime(at, r, b.Relays)
		case kindChat:
			c.chatModel(at, &r)
		case kindScripted:
			scripted = true
			r = c.scriptedRuntime(at, n, r)
			r.Script, r.Dir = absolute(dir, r.Script), absolute(dir, r.Dir)
		}
		b.Runtimes[n] = r
	}
	if scripted && !b.Split() { // with an address for the operator this is checked in any case
		c.ownPort("listen", b.Listen, "agents on this machine must find it")
	}
	for i := range b.Orchestrators {
		o := &b.Orchestrators[i]
		if o.Runtime == cloudRuntime {
			o.Runtime = ""
		}
		if _, ok := b.Runtimes[o.Runtime]; o.Runtime != "" && !ok {
			c.problem(fmt.Sprintf("orchestrators[%d].runtime", i), o.Runtime, "is not a runtime", "use "+oneOf(append([]string{cloudRuntime}, names...)))
		}
	}
}

// maxToolCap bounds how many tools the program of an agent may be said to take.
const maxToolCap = 10_000

// relayRuntime checks a runtime whose agents a relay hosts. Whether the relay is enrolled, and has the entry, is not for a file to know.
func (c *checker) relayRuntime(at string, r Runtime, called map[string]Relay) {
	c.onlyFor(at, r.Kind, chatKeys...)
	c.named(at+".relay", r.Relay, "name the relay, as in drawbridge relay token NAME")
	c.named(at+".agent", r.Agent, "name the entry below agents in relay.yaml of that machine")
	if _, address := called[r.Relay]; address {
		c.problem(at+".relay", r.Relay, "is a relay that the bridge calls at an address, and such a relay hosts no agents", "let the machine join instead: drawbridge relay token NAME")
	}
	if c.file.Has(at+".tool_cap") && (r.ToolCap < 1 || r.ToolCap > maxToolCap) {
		c.problem(at+".tool_cap", fmt.Sprint(r.ToolCap), "is out of range", fmt.Sprintf("use 1 to %d", maxToolCap))
	}
	for key, value := range map[string]string{".script": r.Script, ".dir": r.Dir} {
		if value != "" {
			c.problem(at+key, value, "is for runtimes of kind scripted", "remove it")
		}
	}
}

// named checks the name of something that stands in another file.
func (c *checker) named(key, value, remedy string) {
	if value == "" {
		c.problem(key, "", "is required", remedy)
		return
	}
	c.name(key, value)
}

func (c *checker) scriptedRuntime(at, name string, r Runtime) Runtime {
	c.onlyFor(at, r.Kind, append([]string{"tool_cap"}, chatKeys...)...)
	if r.Script == "" {
		c.problem(at+".script", "", "is required", "name the file that says what its agents do")
	}
	for key, value := range map[string]string{".relay": r.Relay, ".agent": r.Agent} {
		if value != "" {
			c.problem(at+key, value, "is for runtimes of kind relay", "remove it")
		}
	}
	if r.Dir == "" {
		r.Dir = name + ".agents"
	}
	c.path(at+".script", r.Script)
	c.path(at+".dir", r.Dir)
	return r
}

func (c *checker) mail(m Mail) {
	if m.PerMinute < 1 || m.PerMinute > 100_000 {
		c.problem("mail.per_minute", strconv.Itoa(m.PerMinute), "is out of range", "use 1 to 100000")
	}
	if m.ChainDepth < 1 || m.ChainDepth > 1000 {
		c.problem("mail.chain_depth", strconv.Itoa(m.ChainDepth), "is out of range", "use 1 to 1000")
	}
	if m.MaxFile < 1 || m.MaxFile > 1<<40 {
		c.problem("mail.max_file", strconv.FormatInt(m.MaxFile, 10), "is out of range", "use 1 to 1099511627776, in bytes")
	}
}

func (c *checker) tools(t Tools) {
	if t.PerMinute < 1 || t.PerMinute > 1_000_000 {
		c.problem("tools.per_minute", strconv.Itoa(t.PerMinute), "is out of range", "use 1 to 1000000")
	}
}

func (c *checker) chat(chat *Chat, list []Orchestrator) {
	if chat.PerMinute < 1 || chat.PerMinute > 1000 {
		c.problem("chat.per_minute", strconv.Itoa(chat.PerMinute), "is out of range", "use 1 to 1000")
	}
	c.span("chat.wait", chat.Wait, time.Second, time.Hour)
	if chat.Orchestrator == "" {
		if len(list) == 1 {
			chat.Orchestrator = list[0].Name
		}
		return
	}
	names := make([]string, len(list))
	for i, o := range list {
		names[i] = o.Name
	}
	if !slices.Contains(names, chat.Orchestrator) {
		c.problem("chat.orchestrator", chat.Orchestrator, "is not an orchestrator", "use "+oneOf(names))
	}
}

func (c *checker) relay(n string, r Relay) Relay {
	at := "relays." + n
	c.name(at, n)
	if r.URL == "" {
		c.problem(at+".url", "", "is required", "write the relay's address, such as http://127.0.0.1:7420")
	}
	r.URL = c.url(at+".url", r.URL)
	c.token(at+".token", r.Token)
	return r
}

func (c *checker) name(key, value string) {
	if !plainName.MatchString(value) {
		c.problem(key, value, "is not a name", "use 1 to 64 of a-z, 0-9, _, . and -, beginning with a letter or a digit")
	}
}

func (c *checker) span(key string, value, least, most time.Duration) {
	if value < least || value > most {
		c.problem(key, value.String(), "is out of range", fmt.Sprintf("use %s to %s", least, most))
	}
}

func absolute(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	joined := filepath.Join(dir, path)
	if abs, err := filepath.Abs(joined); err == nil {
		return abs
	}
	return joined
}

func oneOf(words []string) string {
	if len(words) == 0 {
		return "none, as none is configured"
	}
	return yamlconf.Or(words)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
