package script

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"time"
)

// The statuses of a run. CREATING and RUNNING are active, the others are terminal.
const (
	StatusCreating  = "CREATING"
	StatusRunning   = "RUNNING"
	StatusFinished  = "FINISHED"
	StatusError     = "ERROR"
	StatusCancelled = "CANCELLED"
	StatusExpired   = "EXPIRED"
)

// Rulebook is a checked script, ready to answer. It is never changed, so it needs no lock.
type Rulebook struct {
	Account      Account
	Repositories []string      // as listed, each of which RepoPath takes
	Latency      time.Duration // of a turn that names none
	access       []string
	agents       []repoRules
	fallback     *Rule
}

type repoRules struct {
	repo  string
	turns []*Rule
}

// Rule is one turn of a script, ready to match and to answer.
type Rule struct {
	Turn
	pattern *regexp.Regexp
	reply   *template.Template // nil when Reply is plain text
}

// ReplyData is what a reply's template may name.
type ReplyData struct {
	Prompt, Repo, AgentID string
	Turn                  int
}

func wrong(text string, path ...any) error { return &problem{path: path, text: text} }

func orList(words []string) string { return strings.Join(words, ", ") }

// Compile checks s and makes it ready to answer. The error names the place that is wrong.
func Compile(s *Script) (*Rulebook, error) {
	b := &Rulebook{Account: s.Account, Repositories: s.Repositories, access: s.Access, Latency: time.Duration(s.Latency)}
	b.Latency = cmp.Or(b.Latency, 200*time.Millisecond)
	b.Account.KeyName = cmp.Or(b.Account.KeyName, "Simulator key")
	b.Account.UserID = cmp.Or(b.Account.UserID, 42)
	b.Account.Email = cmp.Or(b.Account.Email, "developer@example.com")
	if err := s.Settings.check(); err != nil {
		return nil, err
	}
	if err := checkLists(s); err != nil {
		return nil, err
	}
	for i, a := range s.Agents {
		r := repoRules{repo: strings.ToLower(a.Repo)}
		if _, err := path.Match(r.repo, ""); err != nil {
			return nil, wrong("is not a pattern", "agents", i, "repo")
		}
		for j, t := range a.Turns {
			rule, err := compileTurn(t, "agents", i, "turns", j)
			if err != nil {
				return nil, err
			}
			r.turns = append(r.turns, rule)
		}
		b.agents = append(b.agents, r)
	}
	fallback := Turn{Reply: "Done."}
	if s.Default != nil {
		fallback = *s.Default
	}
	var err error
	b.fallback, err = compileTurn(fallback, "default")
	return b, err
}

func checkLists(s *Script) error {
	for i, k := range s.Keys {
		if k == "" {
			return wrong("an empty key", "keys", i)
		}
	}
	for i, m := range s.Models {
		if m.ID == "" || m.DisplayName == "" {
			return wrong("id and name are required", "models", i)
		}
	}
	for i, r := range s.Repositories {
		if _, ok := RepoPath(r); !ok {
			return wrong("must be github.com/owner/name", "repositories", i)
		}
	}
	for i, r := range s.Access {
		if _, err := path.Match(r, ""); err != nil {
			return wrong("is not a pattern", "access", i)
		}
	}
	for i, f := range s.Faults {
		if err := f.Check(); err != nil {
			return wrong(err.Error(), "faults", i)
		}
	}
	return nil
}

func compileTurn(t Turn, at ...any) (*Rule, error) {
	fail := func(key, text string) (*Rule, error) { return nil, wrong(text, append(slices.Clone(at), key)...) }
	if t.Match != "" && t.Regexp != "" {
		return fail("regexp", "give match or regexp, not both")
	}
	rule := &Rule{Turn: t}
	rule.Status = cmp.Or(rule.Status, StatusFinished)
	if !slices.Contains([]string{StatusFinished, StatusError, StatusExpired}, rule.Status) {
		return fail("status", "must be FINISHED, ERROR or EXPIRED")
	}
	if t.Error != nil && (rule.Status != StatusError || t.Error.Message == "") {
		return fail("error", "needs status: ERROR and a message")
	}
	if t.PR != "" && t.Branch == "" {
		return fail("pr", "needs a branch")
	}
	if t.Usage != nil && !t.Usage.check() {
		return fail("usage", "tokens and cents must be 0 to 1e9")
	}
	for i, tool := range t.Tools {
		if tool.Name == "" {
			return nil, wrong("name is required", append(slices.Clone(at), "tools", i)...)
		}
	}
	rule.Artifacts = slices.Clone(t.Artifacts)
	for i, a := range rule.Artifacts {
		clean := strings.TrimPrefix(path.Clean(a.Path), "artifacts/")
		if a.Path == "" || clean == "." || path.IsAbs(clean) || strings.HasPrefix(clean, "..") {
			return nil, wrong("must be a path within the artifacts folder", append(slices.Clone(at), "artifacts", i, "path")...)
		}
		rule.Artifacts[i].Path = clean
	}
	return rule, rule.compileText(at)
}

func (t *Rule) compileText(at []any) error {
	var err error
	if t.Regexp != "" {
		if t.pattern, err = regexp.Compile(t.Regexp); err != nil {
			return wrong(err.Error(), append(slices.Clone(at), "regexp")...)
		}
	}
	if !strings.Contains(t.Reply, "{{") {
		return nil
	}
	t.reply, err = template.New("reply").Option("missingkey=error").Parse(t.Reply)
	if err == nil {
		// A misspelt field shows only when a template runs.
		err = t.reply.Execute(&strings.Builder{}, ReplyData{})
	}
	if err != nil {
		return wrong(err.Error(), append(slices.Clone(at), "reply")...)
	}
	return nil
}

func (t *Rule) matches(prompt string) bool {
	if t.pattern != nil {
		return t.pattern.MatchString(prompt)
	}
	return strings.Contains(prompt, t.Match)
}

// Text is the reply for d. It fails only for a template that depends on its data in a way the dry run at load does not show.
func (t *Rule) Text(d ReplyData) (string, error) {
	if t.reply == nil {
		return t.Reply, nil
	}
	var b strings.Builder
	if err := t.reply.Execute(&b, d); err != nil {
		return "", fmt.Errorf("fill in reply: %w", err)
	}
	return b.String(), nil
}

// Choose finds the turn that answers prompt for an agent on repo; used holds the turns that are used up for it.
func (b *Rulebook) Choose(repo, prompt string, used map[*Rule]bool) *Rule {
	for _, a := range b.agents {
		if !repoMatches(a.repo, repo) {
			continue
		}
		for _, t := range a.turns {
			if !used[t] && t.matches(prompt) {
				return t
			}
		}
	}
	return b.fallback
}

// MayAccess is whether the script lets agents be launched on repo, a path as made by RepoPath.
func (b *Rulebook) MayAccess(repo string) bool {
	return len(b.access) == 0 || slices.ContainsFunc(b.access, func(p string) bool { return repoMatches(strings.ToLower(p), repo) })
}

// repoMatches compares a lower-cased pattern with a repository path as made by RepoPath.
func repoMatches(pattern, repo string) bool {
	switch pattern {
	case "":
		return true
	case "none":
		return repo == ""
	}
	ok, err := path.Match(pattern, strings.ToLower(repo))
	return err == nil && ok
}

// RepoPath is "github.com/owner/name" for any way to write a repository's URL. The simulator takes any host, so that a
// launch on a repository that nobody allowed shows up in the log rather than as a refusal here.
func RepoPath(raw string) (string, bool) {
	p := raw
	for _, scheme := range []string{"https://", "http://"} {
		if len(p) >= len(scheme) && strings.EqualFold(p[:len(scheme)], scheme) {
			p = p[len(scheme):]
			break
		}
	}
	p = strings.TrimSuffix(strings.TrimSuffix(p, "/"), ".git")
	parts := strings.Split(p, "/")
	if len(parts) != 3 || parts[1] == "" || parts[2] == "" || !strings.Contains(parts[0], ".") {
		return "", false
	}
	return p, !strings.ContainsAny(p, " \t\r\n?#@\\%")
}

var pullRequest = regexp.MustCompile(`^https://([^/\s]+/[^/\s]+/[^/\s]+)/pull/[0-9]+/?$`)

// RepoOfPR is the repository of a pull request's URL.
func RepoOfPR(raw string) (string, bool) {
	m := pullRequest.FindStringSubmatch(raw)
	if m == nil {
		return "", false
	}
	return RepoPath(m[1])
}

// DefaultModels is the list for a script that names no models.
func DefaultModels() []Model {
	return []Model{
		{ID: "composer-2", DisplayName: "Composer 2", Aliases: []string{"composer-latest", "composer"}},
		{ID: "composer-1.5", DisplayName: "Composer 1.5"},
		{ID: "claude-4-sonnet", DisplayName: "Claude 4 Sonnet"},
		{ID: "claude-4-sonnet-thinking", DisplayName: "Claude 4 Sonnet (thinking)"},
		{ID: "claude-4.5-sonnet-thinking", DisplayName: "Claude 4.5 Sonnet (thinking)"},
		{ID: "claude-4.6-sonnet-thinking", DisplayName: "Claude 4.6 Sonnet (thinking)"},
		{ID: "gpt-5.2", DisplayName: "GPT-5.2"},
	}
}
