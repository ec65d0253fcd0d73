package config

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"drawbridge/internal/httpx"
	"drawbridge/policy"
)

// OpenAI is the OpenAI-compatible door.
type OpenAI struct {
	// Listen is the door's own address; with "" the bridge has none.
	Listen string `yaml:"listen"`
	// URL is where a proxy shows it, without a slash at the end; "" without one.
	URL string `yaml:"url"`
	// Anonymous names the token of callers on this machine that send none; "" lets nobody in without one.
	Anonymous string `yaml:"anonymous"`
	// Origins are web pages that may call the door, each as https://host.
	Origins []string `yaml:"origins"`
	// ParkTimeout is how long a turn waits for results of the caller's tools.
	ParkTimeout time.Duration `yaml:"park_timeout"`
	// SideModel answers requests for titles, tags and follow-up questions; "" answers them by a rule.
	SideModel string `yaml:"side_model"`
	// Upstreams are what stands behind the door, by name.
	Upstreams map[string]Upstream `yaml:"upstreams"`
}

// Upstream is one backend behind the OpenAI-compatible door.
type Upstream struct {
	// Kind is chat, agent, cloud or cursor.
	Kind string `yaml:"kind" oneof:"chat agent cloud cursor"`
	// URL is an endpoint's base, without a slash at the end. Of kind cursor it is the service's host for keys and models; "" is the vendor's.
	URL string `yaml:"url"`
	// AgentURL is the host for runs of kind cursor; "" is URL.
	AgentURL string `yaml:"agent_url"`
	// Key is sent as a bearer token; empty for an endpoint that asks for none.
	Key Secret `yaml:"key"`
	// IKnow says of kind cursor that its owner knows what the notice says.
	IKnow bool `yaml:"i_know"`
	// HTTP2 has kind cursor run a turn on one stream in both directions.
	HTTP2 bool `yaml:"http2"`
	// Share lets the service of kind cursor keep what is said for training.
	Share bool `yaml:"share"`
	// Models are the models of kinds chat and cursor that callers may name; without any, all that the endpoint lists.
	Models map[string]UpstreamModel `yaml:"models"`
	// Repos are the repositories of kind cloud, by the alias that stands in cloud/<alias>.
	Repos map[string]string `yaml:"repos"`
}

// UpstreamModel is one model of a chat endpoint, under the name that callers use.
type UpstreamModel struct {
	// Model is the endpoint's own name; "" is the callers' name.
	Model string `yaml:"model"`
	// Context is how many tokens it takes, 0 where nobody knows.
	Context int `yaml:"context_length"`
	// MaxMode and Parameters are wishes of kind cursor, such as effort: high.
	MaxMode    bool              `yaml:"max_mode"`
	Parameters map[string]string `yaml:"parameters"`
}

// The kinds of upstreams.
const (
	UpstreamChat   = "chat"
	UpstreamAgent  = "agent"
	UpstreamCloud  = "cloud"
	UpstreamCursor = "cursor"
)

// sampleOpenAI is the port of the seed's endpoint.
const sampleOpenAI = "127.0.0.1:18741"

func (c *checker) openAI(b *Bridge) {
	o := &b.OpenAI
	if o.Listen == "" {
		if c.file.Has("openai") { // a variable that is not set must not switch the door off in silence
			c.problem("openai.listen", "", "is required", "write host:port, such as "+sampleOpenAI+", or remove openai")
		}
		return
	}
	host, port, err := net.SplitHostPort(o.Listen)
	if err == nil && host == "" {
		o.Listen = net.JoinHostPort("127.0.0.1", port)
	}
	c.listen("openai.listen", o.Listen)
	for key, addr := range map[string]string{"listen": b.Listen, "operator.listen": b.Operator.Listen} {
		if addr != "" && overlap(addr, o.Listen) {
			c.problem("openai.listen", o.Listen, "has the same port as "+key+" ("+addr+")", "choose another port")
		}
	}
	o.URL = c.url("openai.url", o.URL)
	c.anonymous(o)
	for i, origin := range o.Origins {
		at := fmt.Sprintf("openai.origins[%d]", i)
		c.required(at, origin)
		o.Origins[i] = c.url(at, origin)
	}
	c.span("openai.park_timeout", o.ParkTimeout, time.Second, 24*time.Hour)
	if len(o.Upstreams) == 0 {
		c.problem("openai.upstreams", "", "is required", "name at least one backend, such as agents: { kind: agent }")
	}
	for _, n := range sortedKeys(o.Upstreams) {
		o.Upstreams[n] = c.upstream("openai.upstreams."+n, n, o.Upstreams[n])
	}
}

// anonymous refuses a door without a token at an address that other machines reach.
func (c *checker) anonymous(o *OpenAI) {
	if o.Anonymous == "" {
		return
	}
	c.name("openai.anonymous", o.Anonymous)
	host, _, err := net.SplitHostPort(o.Listen)
	if err == nil && !httpx.Loopback(host) {
		c.problem("openai.anonymous", o.Anonymous, "would let other machines in without a token", "set openai.listen to "+sampleOpenAI+", or remove openai.anonymous")
	}
}

// upstreamKeys are the keys of an upstream besides its kind, and the kinds that have them.
var upstreamKeys = map[string][]string{
	"url": {UpstreamChat, UpstreamCursor}, "key": {UpstreamChat, UpstreamCursor}, "models": {UpstreamChat, UpstreamCursor}, "repos": {UpstreamCloud},
	"agent_url": {UpstreamCursor}, "i_know": {UpstreamCursor}, "http2": {UpstreamCursor}, "share": {UpstreamCursor},
}

func (c *checker) upstream(at, name string, u Upstream) Upstream {
	c.name(at, name)
	if !c.file.Has(at + ".kind") {
		c.problem(at+".kind", "", "is required", "write chat, agent, cloud or cursor")
	}
	for _, key := range sortedKeys(upstreamKeys) {
		if kinds := upstreamKeys[key]; c.file.Has(at+"."+key) && !slices.Contains(kinds, u.Kind) {
			c.problem(at+"."+key, "", "is not a setting of kind "+u.Kind, "remove it, or correct the kind")
		}
	}
	u.URL, u.AgentURL = c.url(at+".url", u.URL), c.url(at+".agent_url", u.AgentURL)
	if u.Key.Len() == 0 && c.file.Has(at+".key") {
		c.problem(at+".key", "", "is empty", "set it, or remove it for an endpoint that asks for none")
	}
	if u.Key.Len() > 0 && !visible.MatchString(u.Key.Reveal()) {
		c.problem(at+".key", "", "holds a blank, a line end or a character that is not ASCII", "copy the key again")
	}
	switch u.Kind {
	case UpstreamChat:
		c.chatUpstream(at, u)
	case UpstreamCloud:
		c.cloudUpstream(at, u)
	case UpstreamCursor:
		c.cursorUpstream(at, u)
	}
	return u
}

func (c *checker) chatUpstream(at string, u Upstream) {
	if u.URL == "" {
		c.problem(at+".url", "", "is required", "write the endpoint's address up to /v1, such as http://127.0.0.1:11434/v1")
	}
	if strings.HasSuffix(u.URL, "/chat/completions") {
		c.problem(at+".url", u.URL, "ends with /chat/completions, which the bridge adds", "leave that out")
	}
	c.upstreamModels(at, u)
}

// cursorUpstream demands that whoever uses an unpublished protocol says so.
func (c *checker) cursorUpstream(at string, u Upstream) {
	if !u.IKnow {
		c.problem(at+".i_know", "", "is required: this kind speaks a protocol that its vendor has not published, and may be against the terms that come with your key",
			"read docs/reference/openai-cursor.md, then write i_know: true")
	}
	if !c.file.Has(at + ".key") {
		c.problem(at+".key", "", "is required", "write an API key by reference, such as ${CURSOR_API_KEY}")
	}
	c.upstreamModels(at, u)
}

func (c *checker) upstreamModels(at string, u Upstream) {
	for _, n := range sortedKeys(u.Models) {
		m := u.Models[n]
		for _, name := range []string{n, m.Model} {
			if name != "" && (!visible.MatchString(name) || utf8.RuneCountInString(name) > 200) {
				c.problem(at+".models."+n, name, "is not the name of a model", "use at most 200 visible ASCII characters")
			}
		}
		if strings.HasPrefix(n, "agent/") || strings.HasPrefix(n, "cloud/") {
			c.problem(at+".models."+n, n, "begins with agent/ or cloud/, as only names of agents do", "choose another name")
		}
		if u.Kind != UpstreamCursor && (m.MaxMode || len(m.Parameters) > 0) {
			c.problem(at+".models."+n, n, "has max_mode or parameters, which are for kind cursor", "remove them")
		}
		if m.Context < 0 {
			c.problem(at+".models."+n+".context_length", fmt.Sprint(m.Context), "is out of range", "write how many tokens the model takes, or remove it")
		}
	}
}

func (c *checker) cloudUpstream(at string, u Upstream) {
	if len(u.Repos) == 0 {
		c.problem(at+".repos", "", "is required", "name at least one, such as my-app: github.com/me/my-app")
	}
	for _, alias := range sortedKeys(u.Repos) {
		c.name(at+".repos."+alias, alias)
		repo, err := policy.CanonicalRepo(u.Repos[alias])
		if err != nil {
			c.problem(at+".repos."+alias, u.Repos[alias], "is not a repository", err.Error())
		}
		u.Repos[alias] = string(repo)
	}
}
