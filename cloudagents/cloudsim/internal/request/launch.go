package request

import (
	"cmp"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"drawbridge/cloudagents/cloudsim/script"
)

// The documented limits of the create bodies.
const (
	maxRepos     = 20
	maxImages    = 5
	maxServers   = 50
	maxSubagents = 20
	maxEnvVars   = 50
	maxParams    = 50
)

// Launch is a create request of either version, checked. Pointers are nil when the request does not say.
type Launch struct {
	API      script.API
	AgentID  string // as asked, "" to mint one
	Name     string // "" to derive one from the prompt
	Prompt   string
	Repos    []RepoRef // empty for an agent without a repository
	Env      EnvRef
	Branch   string   // v0 target.branchName
	PRURL    string   // v0: the pull request that the agent is launched on
	Hook     *Webhook // v0 only
	Metadata map[string]string
	// Servers are the remote ones of mcpServers.
	Servers []Server
	// Subagents is customSubagents, to be echoed as it came.
	Subagents any

	WorkOnCurrentBranch, AutoCreatePR, SkipReviewer, OpenAsApp *bool
}

// Server is a remote tool server that an agent was given.
type Server struct {
	Name    string            `json:"name"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
}

// RepoRef is one repository of a launch, Path as made by script.RepoPath.
type RepoRef struct{ Path, Ref, PRURL string }

// EnvRef is where an agent runs: cloud, pool or machine.
type EnvRef struct {
	Type string `json:"type"`
	Name string `json:"name,omitempty"`
}

// Webhook is where a v0 launch wants its status changes sent; Secret may be empty.
type Webhook struct{ URL, Secret string }

// Repo is the path of the first repository, "" for none.
func (l Launch) Repo() string {
	if len(l.Repos) == 0 {
		return ""
	}
	return l.Repos[0].Path
}

var agentIDForm = regexp.MustCompile(`^bc-[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`)

// Rules is what a launch is checked against.
type Rules struct {
	Settings script.Settings // with defaults
	Book     *script.Rulebook
	Models   []script.Model
}

// Launch reads a create request. Everything that can be refused without knowing other agents is refused.
func (s Rules) Launch(b *Body) (Launch, error) {
	if b.broken != nil {
		return Launch{}, b.broken
	}
	read := s.readV1
	if b.api == script.V0 {
		read = s.readV0
	}
	l, model, err := read(b)
	if err != nil {
		return l, err
	}
	return l, s.admit(l, model)
}

func (s Rules) readV1(body *Body) (Launch, string, error) {
	b := body.root
	l := Launch{
		API: script.V1, Prompt: body.prompt(), Name: b.text("name", 100), AgentID: b.text("agentId", 0),
		Env:                 s.readEnv(b.object("env")),
		WorkOnCurrentBranch: b.flag("workOnCurrentBranch"), AutoCreatePR: b.flag("autoCreatePR"),
		SkipReviewer: b.flag("skipReviewerRequest"), OpenAsApp: b.flag("openAsCursorGithubApp"),
		Metadata: b.texts("metadata"), Subagents: b.fields["customSubagents"],
	}
	if l.AgentID != "" && !agentIDForm.MatchString(l.AgentID) {
		b.fail("agentId", "must be bc-<uuid>")
	}
	if l.AgentID != "" && b.has("envVars") {
		b.fail("agentId", "cannot be combined with envVars")
	}
	b.word("mode", "agent", "plan")
	checkEnvVars(b)
	l.Servers = readServers(b)
	checkSubagents(b)
	for _, r := range b.objects("repos", maxRepos) {
		l.Repos = append(l.Repos, readRepo(r))
	}
	checkTarget(b, l)
	return l, readModel(b), body.problem
}

func readModel(b object) string {
	if !b.has("model") {
		return ""
	}
	m := b.object("model")
	for _, p := range m.objects("params", maxParams) {
		p.needText("id", 0)
		p.needText("value", 0)
	}
	return m.needText("id", 0)
}

func readRepo(r object) RepoRef {
	raw := r.needText("url", 0)
	path, ok := script.RepoPath(raw)
	if raw != "" && !ok {
		r.fail("url", "must be a GitHub repository URL")
	}
	return RepoRef{Path: path, Ref: r.text("startingRef", 0), PRURL: r.link("prUrl", 0)}
}

func (s Rules) readEnv(e object) EnvRef {
	if e.fields == nil {
		return EnvRef{Type: "cloud"}
	}
	e.needText("type", 0)
	env := EnvRef{Type: e.word("type", "cloud", "pool", "machine"), Name: e.text("name", 0)}
	if env.Type == "pool" {
		env.Name = cmp.Or(env.Name, "default")
		if !slices.Contains(s.Settings.Pools, env.Name) {
			e.fail("name", "is not a known pool")
		}
	}
	return env
}

func checkTarget(b object, l Launch) {
	switch {
	case l.Env.Type == "cloud" && l.Env.Name != "" && len(l.Repos) > 0:
		b.fail("repos", "cannot be combined with a named cloud environment")
	case l.Env.Type != "cloud" && len(l.Repos) > 1:
		b.fail("repos", "must have one entry for a self-hosted environment")
	}
}

func checkEnvVars(b object) {
	vars := b.texts("envVars")
	if len(vars) > maxEnvVars {
		b.fail("envVars", "must have at most %d entries", maxEnvVars)
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		value := vars[name]
		if name == "" || len(name) > 255 || strings.HasPrefix(name, "CURSOR_") {
			b.fail("envVars", "must have names of 1 to 255 bytes that do not start with CURSOR_")
		}
		if value == "" || len(value) > 4096 {
			b.fail("envVars", "must have values of 1 to 4096 bytes")
		}
	}
}

func readServers(b object) (remote []Server) {
	seen := map[string]bool{}
	for _, m := range b.objects("mcpServers", maxServers) {
		name := m.needText("name", 0)
		if seen[name] {
			m.fail("name", "must be unique")
		}
		seen[name] = true
		if m.has("command") == m.has("url") {
			m.fail("command", "or url is required, and not both")
		}
		if m.has("command") {
			m.only("name", "type", "command", "args", "env")
			m.word("type", "stdio")
			m.text("command", 0)
			m.texts("env")
			continue
		}
		m.only("name", "type", "url", "headers", "auth")
		m.word("type", "http", "sse")
		if u := m.link("url", 0); strings.Contains(strings.SplitN(strings.TrimPrefix(strings.TrimPrefix(u, "https://"), "http://"), "/", 2)[0], "@") {
			m.fail("url", "must not contain userinfo")
		}
		remote = append(remote, Server{Name: name, URL: m.text("url", 0), Headers: m.texts("headers")})
		if m.has("auth") {
			auth := m.object("auth")
			auth.only("CLIENT_ID", "CLIENT_SECRET", "scopes")
			auth.needText("CLIENT_ID", 0)
		}
	}
	return remote
}

func checkSubagents(b object) {
	seen := map[string]bool{"explore": true, "shell": true, "debug": true, "computerUse": true, "cursorGuide": true}
	for _, a := range b.objects("customSubagents", maxSubagents) {
		a.only("name", "description", "prompt", "model")
		name := a.needText("name", 100)
		if seen[name] {
			a.fail("name", "must be unique and not a built-in")
		}
		seen[name] = true
		a.needText("description", 1000)
		a.needText("prompt", 8192)
	}
}

func (s Rules) readV0(body *Body) (Launch, string, error) {
	b, source, target := body.root, body.root.object("source"), body.root.object("target")
	l := Launch{
		API: script.V0, Prompt: body.prompt(), Env: EnvRef{Type: "cloud"}, Branch: target.text("branchName", 0),
		AutoCreatePR: target.flag("autoCreatePr"), OpenAsApp: target.flag("openAsCursorGithubApp"),
		SkipReviewer: target.flag("skipReviewerRequest"), PRURL: source.link("prUrl", 0), Hook: readHook(b),
	}
	if s.Settings.V0BranchName == script.BranchGenerate {
		l.Branch = ""
	}
	target.flag("autoBranch")
	model, raw, ref := b.text("model", 0), source.text("repository", 0), source.text("ref", 0)
	if l.PRURL != "" && (raw != "" || ref != "") {
		source.fail("prUrl", "cannot be combined with repository or ref")
	}
	if body.problem != nil {
		return l, model, body.problem
	}
	path, ok := script.RepoPath(raw)
	switch {
	case l.PRURL != "":
		if path, ok = script.RepoOfPR(l.PRURL); !ok {
			return l, model, unresolved(l.PRURL)
		}
	case raw == "":
		return l, model, Refuse(http.StatusBadRequest, "repository_required", "source.repository or source.prUrl is required")
	case !ok:
		return l, model, Invalid("source.repository must be a GitHub repository URL")
	}
	l.Repos = []RepoRef{{Path: path, Ref: ref}}
	return l, model, nil
}

func unresolved(pr string) error {
	return Refuse(http.StatusBadRequest, "pr_resolution_failed", "Could not resolve pull request %s", pr)
}

func readHook(b object) *Webhook {
	if !b.has("webhook") {
		return nil
	}
	h := b.object("webhook")
	h.needText("url", 2048)
	hook := &Webhook{URL: h.link("url", 2048), Secret: h.text("secret", 256)}
	if h.has("secret") && len([]rune(hook.Secret)) < 32 {
		h.fail("secret", "must be at least 32 characters")
	}
	return hook
}

// admit is what needs the account: models and access to repositories.
func (s Rules) admit(l Launch, model string) error {
	if model != "" && !s.Settings.AnyModel && !s.hasModel(model) {
		return Refuse(http.StatusBadRequest, "invalid_model", "Model '%s' is not available or invalid.", model)
	}
	for _, r := range l.Repos {
		if !s.Book.MayAccess(r.Path) {
			return Refuse(s.Settings.AccessStatus, "repository_access", "No access to repository %s", r.Path)
		}
		if r.PRURL != "" {
			if _, ok := script.RepoOfPR(r.PRURL); !ok {
				return unresolved(r.PRURL)
			}
		}
	}
	return nil
}

func (s Rules) hasModel(id string) bool {
	return id == "default" || id == "auto" ||
		slices.ContainsFunc(s.Models, func(m script.Model) bool { return m.ID == id || slices.Contains(m.Aliases, id) })
}

// Title is the name that an agent gets from its prompt.
func Title(prompt string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(prompt), "\n")
	r := []rune(strings.TrimSpace(line))
	if len(r) > 60 {
		return strings.TrimSpace(string(r[:60])) + "…"
	}
	if len(r) == 0 {
		return "Untitled"
	}
	return string(r)
}
