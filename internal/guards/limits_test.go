package guards_test

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"drawbridge/proof/pages"
)

// limit is a row of docs/reference/limits.md: what is limited, and the constant of the code that says how far.
type limit struct{ what, constant string }

// limits are those that a person or an agent can meet and that no setting changes, or that bound a setting.
var limits = []struct {
	title string
	rows  []limit
}{
	{"What an agent writes", []limit{
		{"commands in one reply", "parser.MaxCommands"},
		{"one line that holds a command", "parser.maxLine"},
		{"lines of one reply that look like commands and are reported", "parser.MaxNearMisses"},
		{"the text of one turn, to an agent", "bridge.MaxText"},
		{"the part of one foreign text that enters a turn; the bridge keeps the whole", "bridge/words.MaxUntrusted"},
		{"the prompt or the message of one tool call", "mcpserver.maxWords"},
		{"the reply of a cloud agent in one turn", "cloudagents.defaultMaxReply"},
		{"the reply of an agent on your machine in one turn", "relay/wire.MaxReplyText"},
		{"the text of one answer of a chat model", "chatmodel.maxAnswer"},
		{"tool calls in one answer of a chat model", "chatmodel.maxCalls"},
	}},
	{"Rules in allowlist.yaml", []limit{
		{"a number under `limits`", "config.maxLimit"},
		{"`depth` under `limits`", "config.maxDepth"},
		{"`wait` of an action", "policy.MaxWait"},
		{"`once per` of an approval", "policy.maxApproval"},
		{"the name of an action, in characters", "policy.maxActionID"},
	}},
	{"Bridge and API", []limit{
		{"tokens and keys in bridge.yaml, in characters, at least", "config.minSecret"},
		{"people under `operators`", "config.maxOperators"},
		{"the body of an API request", "internal/strictjson.MaxBytes"},
		{"entries on one page of a list", "api.maxLimit"},
		{"the body of a webhook", "webhooks.DefaultMaxBody"},
		{"webhooks that `GET /v1/deliveries` lists", "api.maxDeliveries"},
		{"a login to the page", "web.SessionLife"},
		{"a one-time link to the page", "web.LinkLife"},
		{"wrong codes of one address in a minute", "web.maxAttempts"},
		{"windows of one login with live news", "web.maxStreams"},
		{"an alert, after it is over", "alerts.Kept"},
		{"the wait for joined results", "bridge.MaxJoinWithin"},
	}},
	{"Mail and memory", []limit{
		{"one message", "bridge.MaxMessage"},
		{"the title of a thread", "bridge.MaxTitle"},
		{"members of one thread or channel", "bridge.MaxMembers"},
		{"reactions of one agent to one message", "mail.maxReactions"},
		{"the description of a file", "mail.maxDescription"},
		{"files that one agent hands over at the same time", "mail.maxUploads"},
		{"memory blocks of one agent", "memory.MaxBlocks"},
		{"versions of one memory block that the bridge keeps", "bridge.KeptVersions"},
		{"passages of one agent", "memory.MaxPassages"},
		{"one block or one passage", "memory.MaxText"},
		{"the whole memory of one agent", "memory.MaxBytes"},
		{"blocks that an agent sees in one turn, together", "memory.MaxInView"},
		{"tags of one passage", "memory.MaxTags"},
		{"passages that one search returns", "memory.MaxFound"},
	}},
	{"MCP door", []limit{
		{"tools of all toolsets together", "mcpserver.MaxTools"},
		{"one message of a client", "mcpserver.maxBody"},
		{"open sessions of one token; a new one ends the oldest", "mcpserver.maxSessions"},
		{"open event streams of one token", "mcpserver.maxStreams"},
		{"calls of all agents of one relay at the same time", "relay/wire.MaxMCPCalls"},
	}},
	{"OpenAI-compatible door", []limit{
		{"the body of a request", "openai.maxBody"},
		{"messages in a request", "openai.maxMessages"},
		{"tools in a request", "openai.maxTools"},
		{"the arguments of one tool call", "openai.maxArguments"},
		{"one answer", "openai.maxAnswer"},
		{"the history that `previous_response_id` continues", "openai.maxHistory"},
		{"a turn, after its end", "openai.keepFor"},
	}},
	{"Relay and actions", []limit{
		{"actions of one relay", "relay/wire.MaxOffers"},
		{"`timeout` of an action", "relay/runner/settings.maxTimeout"},
		{"each output stream of an action, if `output` says nothing else", "relay/wire.DefaultOutput"},
		{"`output` of an action", "relay/wire.MaxOutput"},
		{"actions that run at the same time (`concurrent`)", "relay/runner/settings.maxConcurrent"},
		{"actions that wait (`queue`)", "relay/runner/settings.maxQueue"},
		{"starts in a minute (`per_minute`)", "relay/runner/settings.maxPerMinute"},
		{"starts in a day (`per_day`)", "relay/runner/settings.maxPerDay"},
		{"all arguments and variables of an action", "relay/runner/settings.maxWords"},
		{"`once per` of an approval", "relay/runner/settings.maxApprovalFor"},
		{"questions about actions that are open at one machine", "relay/runner/approval.maxOpen"},
		{"questions about one action in a minute", "relay/runner/approval.maxPerMinute"},
		{"a join command, if you ask for no other time", "relay/hub.DefaultJoinLife"},
		{"difference between the clocks of bridge and relay", "relay/wire.MaxSkew"},
	}},
	{"Agents on your machine", []limit{
		{"agents in relay.yaml", "relay/runner/settings.maxAgents"},
		{"`slots` of an agent", "relay/runner/settings.maxSlots"},
		{"clones in relay.yaml", "relay/runner/settings.maxRepos"},
		{"a time of an agent in relay.yaml", "relay/runner/settings.maxAgentTime"},
		{"processes of one agent", "relay/agents/host.maxProcesses"},
		{"open questions of all agents of one relay", "relay/agents/permits.maxOpen"},
		{"rules under `permissions` of one agent", "relay/runner/settings.maxCommands"},
		{"times that a turn goes on by itself after a crash", "relay/agents/turns.maxAgain"},
		{"one line that an agent of kind `acp` writes", "relay/agents/acp.maxLine"},
		{"one line that an agent of kind `cli` writes; the relay skips longer ones", "relay/agents/cli.maxLine"},
		{"one file that an agent hands over from its workspace", "relay/wire.MaxPeekFile"},
		{"commits that a turn's evidence names", "relay/agents/workspace.maxEvidenceCommits"},
		{"files that a turn's evidence names", "relay/agents/workspace.maxEvidenceFiles"},
	}},
}

// counted are limits of a plain number; all others are bytes or times.
var counted = map[string]bool{}

func init() {
	for _, name := range strings.Fields(`parser.MaxCommands parser.MaxNearMisses chatmodel.maxCalls config.maxLimit config.maxDepth policy.maxActionID
		config.minSecret config.maxOperators api.maxLimit api.maxDeliveries web.maxAttempts web.maxStreams bridge.MaxMembers mail.maxReactions
		mail.maxUploads memory.MaxBlocks bridge.KeptVersions memory.MaxPassages memory.MaxTags memory.MaxFound mcpserver.MaxTools
		mcpserver.maxSessions mcpserver.maxStreams relay/wire.MaxMCPCalls openai.maxMessages openai.maxTools relay/wire.MaxOffers
		relay/runner/settings.maxConcurrent relay/runner/settings.maxQueue relay/runner/settings.maxPerMinute relay/runner/settings.maxPerDay
		relay/runner/approval.maxOpen relay/runner/approval.maxPerMinute relay/runner/settings.maxAgents relay/runner/settings.maxSlots
		relay/runner/settings.maxRepos relay/agents/host.maxProcesses relay/agents/permits.maxOpen relay/runner/settings.maxCommands
		relay/agents/turns.maxAgain relay/agents/workspace.maxEvidenceCommits relay/agents/workspace.maxEvidenceFiles`) {
		counted[name] = true
	}
}

// TestLimitsPage keeps docs/reference/limits.md and the code the same.
func TestLimitsPage(t *testing.T) {
	t.Parallel()
	c := constants{}
	for _, s := range sources(t) {
		if !s.test {
			c.add(s.pkg, s.file)
		}
	}
	var b strings.Builder
	b.WriteString("# Limits\n\nThis page lists the limits that you cannot change. Settings may set lower ones: see [bridge.yaml](bridge-yaml.md),\n" +
		"[allowlist.yaml](allowlist-yaml.md) and [relay.yaml](relay-yaml.md). A test compares this page with the code.\n")
	for _, section := range limits {
		fmt.Fprintf(&b, "\n## %s\n\n| what | at most |\n|---|---|\n", section.title)
		for _, row := range section.rows {
			value := c.eval(t, row.constant)
			what, bound := strings.CutSuffix(row.what, ", at least")
			text := shown(row.constant, value)
			if bound {
				text = "at least " + text
			}
			fmt.Fprintf(&b, "| %s | %s |\n", what, text)
		}
	}
	pages.Same(t, "../../docs/reference/limits.md", b.String())
}

// constants are expressions and whether they are times, by package and name.
type constants map[string]ast.Expr

func (c constants) add(pkg string, f *ast.File) {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			for i, name := range v.Names {
				if i < len(v.Values) {
					c[pkg+"."+name.Name] = v.Values[i]
				}
			}
		}
	}
}

// measure is a constant's value.
type measure struct {
	n    int64
	time bool
}

// eval returns the value of a constant such as "relay/wire.MaxOffers".
func (c constants) eval(t *testing.T, name string) measure {
	t.Helper()
	e := c[name]
	if e == nil {
		t.Fatalf("there is no constant %s", name)
	}
	return c.of(t, name[:strings.LastIndexByte(name, '.')], e)
}

func (c constants) of(t *testing.T, pkg string, e ast.Expr) measure {
	t.Helper()
	switch e := e.(type) {
	case *ast.BasicLit:
		n, exact := constant.Int64Val(constant.ToInt(constant.MakeFromLiteral(e.Value, e.Kind, 0)))
		if exact {
			return measure{n: n}
		}
	case *ast.ParenExpr:
		return c.of(t, pkg, e.X)
	case *ast.Ident:
		return c.eval(t, pkg+"."+e.Name)
	case *ast.SelectorExpr:
		units := map[string]time.Duration{"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour, "Millisecond": time.Millisecond}
		from := e.X.(*ast.Ident).Name
		if unit, ok := units[e.Sel.Name]; ok && from == "time" {
			return measure{int64(unit), true}
		}
		for name := range c {
			if at := strings.LastIndexByte(name, '.'); name[at+1:] == e.Sel.Name && path.Base(name[:at]) == from {
				return c.eval(t, name)
			}
		}
	case *ast.BinaryExpr:
		x, y := c.of(t, pkg, e.X), c.of(t, pkg, e.Y)
		switch e.Op {
		case token.MUL:
			return measure{x.n * y.n, x.time || y.time}
		case token.ADD:
			return measure{x.n + y.n, x.time || y.time}
		case token.SHL:
			return measure{x.n << y.n, x.time}
		}
	}
	t.Fatalf("a constant of package %s is of a form that this test does not read: %T", pkg, e)
	return measure{}
}

// shown writes a value for people.
func shown(name string, m measure) string {
	switch d := time.Duration(m.n); {
	case m.time && d >= 48*time.Hour && d%(24*time.Hour) == 0:
		return fmt.Sprint(int64(d/(24*time.Hour)), " days")
	case m.time && d >= time.Hour && d%time.Hour == 0:
		return plural(int64(d/time.Hour), "hour")
	case m.time && d >= 2*time.Minute && d%time.Minute == 0:
		return fmt.Sprint(int64(d/time.Minute), " minutes")
	case m.time:
		return fmt.Sprint(int64(d/time.Second), " seconds")
	case counted[name]:
		return grouped(m.n)
	}
	for _, unit := range []struct {
		shift int
		name  string
	}{{30, "GiB"}, {20, "MiB"}, {10, "KiB"}} {
		if m.n >= 1<<unit.shift && m.n%(1<<unit.shift) == 0 {
			return fmt.Sprint(m.n>>unit.shift, " ", unit.name)
		}
	}
	return grouped(m.n) + " bytes"
}

func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprint(n, " ", what, "s")
}

// grouped writes 50000 as 50,000.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
