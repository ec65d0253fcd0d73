package policy

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"drawbridge/parser"
)

// session authorizes commands of one line of agents. It keeps the lists that
// refusals name, so that a turn full of refusals builds them once.
type session struct {
	p              *Policy
	agents         []string
	repos, actions *[]string
}

// authorize checks one command against the lists, without approval, echo or caps.
// Its verdict is Granted, Refused or Noted.
func (s *session) authorize(cmd parser.Command) Verdict {
	switch cmd.Verb {
	case parser.Subagent:
		return s.launch(cmd)
	case parser.LocalAction:
		return s.action(cmd)
	case parser.Remind:
		return remind(cmd)
	case parser.WebhookResult:
		return Verdict{Decision: Noted, Reason: "noted; the bridge sums up what it recorded of this subagent, and the line itself proves nothing"}
	}
	return refusal(CodeNotEnabled, fmt.Sprintf("%s is not a command here", quote(string(cmd.Verb))))
}

func (s *session) launch(cmd parser.Command) Verdict {
	repo, err := CanonicalRepo(cmd.Repo)
	if err != nil {
		return refusal(CodeBadRepo, badRepoReason(cmd.Repo, err))
	}
	rule, reason := s.repoRule(repo)
	if reason != "" {
		v := refusal(CodeRepoNotAllowed, fmt.Sprintf("repository %s %s; %s", quote(string(repo)), reason, allowedText(s.allowedRepos())))
		v.Canonical = string(repo)
		return v
	}
	if bad := badCharacter(cmd.Prompt); bad != "" {
		return refusal(CodeMalformed, fmt.Sprintf("the prompt holds %s; write it again without that character", bad))
	}
	return launchVerdict(repo, rule, cmd.Prompt)
}

// badCharacter names the first character that no door lets through in a prompt or a
// message, or returns "". Only a tool call can have more lines than one.
func badCharacter(text string) string {
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		if bad := parser.BadCharacter(line); bad != "" {
			return bad
		}
	}
	return ""
}

// repoRule returns the rule that allows repo, or why none does.
func (s *session) repoRule(repo Repo) (RepoRule, string) {
	rule, ok := s.p.repos.find(repo)
	if (!ok || rule.Pattern != string(repo)) && s.p.ownRepo(s.agents, repo) {
		rule, ok = RepoRule{Pattern: string(repo)}, true
	}
	switch {
	case !ok:
		return RepoRule{}, "is not on the allowlist"
	case s.p.operator[repo] && rule.Pattern != string(repo):
		return RepoRule{}, "belongs to an orchestrator, and only the operator may launch agents there"
	case !s.p.repoLeft(s.agents, repo):
		return RepoRule{}, "is not allowed for this agent"
	}
	return rule, ""
}

func launchVerdict(repo Repo, rule RepoRule, prompt string) Verdict {
	prompt = trimBlanks(prompt)
	if strings.TrimSpace(prompt) == "" || strings.ContainsRune(prompt, 0) || !utf8.ValidString(prompt) {
		return refusal(CodeMalformed, "the prompt is empty, holds a NUL character or is not UTF-8; write the whole task after prompt=")
	}
	v := Verdict{Decision: Granted, Canonical: string(repo), Rule: rule.Pattern, Runtime: rule.Runtime, API: rule.API, Approval: rule.Approval}
	v.Grant = Grant{valid: true, verb: parser.Subagent, repo: repo, prompt: prompt, api: rule.API}
	v.ApprovalKey = approvalKey(rule.Approval, "repo", rule.Pattern, string(repo), cmp.Or(rule.Runtime, rule.API)) // a rule has one of the two
	return v
}

// action looks the id up as a whole: it is never cut at a blank, lowered or
// repaired, because the agent supplies no argument to an action.
func (s *session) action(cmd parser.Command) Verdict {
	id := trimBlanks(cmd.Action)
	rule, ok := s.p.actions[id]
	reason := ""
	switch {
	case !ok:
		reason = "is not on the allowlist"
	case !s.p.actionLeft(s.agents, id):
		reason = "is not allowed for this agent"
	}
	if reason != "" {
		v := refusal(CodeActionNotAllowed, fmt.Sprintf("action %s %s; %s", quote(id), reason, allowedText(s.allowedActions())))
		if validActionID(id) {
			v.Canonical = id
		}
		return v
	}
	v := Verdict{Decision: Granted, Canonical: rule.ID, Rule: rule.ID, Relay: rule.Relay, Approval: rule.Approval, Wait: rule.Waits()}
	v.Grant = Grant{valid: true, verb: parser.LocalAction, action: rule.ID, relay: rule.Relay}
	v.ApprovalKey = approvalKey(rule.Approval, "action", rule.ID, rule.Relay)
	return v
}

func remind(cmd parser.Command) Verdict {
	when, message := trimBlanks(cmd.When), trimBlanks(cmd.Message)
	if strings.TrimSpace(when) == "" || strings.TrimSpace(message) == "" {
		return refusal(CodeMalformed, "a reminder needs a time and a message; write REMIND: 2h, <message>")
	}
	if bad := cmp.Or(parser.BadCharacter(when), badCharacter(message)); bad != "" {
		return refusal(CodeMalformed, fmt.Sprintf("the reminder holds %s; write it again without that character", bad))
	}
	return Verdict{Decision: Granted, Grant: Grant{valid: true, verb: parser.Remind, when: when, message: message}}
}

// approvalKey is empty unless one approval covers several uses. The demand itself
// is part of the key, so that tightening a rule forgets what was approved under it.
func approvalKey(a Approval, fields ...string) string {
	if a.Mode != ApprovalOnce {
		return ""
	}
	return hashFields(append(fields, a.String())...)
}

func (s *session) allowedRepos() []string {
	if s.repos == nil {
		list := s.p.reposFor(s.agents)
		s.repos = &list
	}
	return *s.repos
}

func (s *session) allowedActions() []string {
	if s.actions == nil {
		list := s.p.actionsFor(s.agents)
		s.actions = &list
	}
	return *s.actions
}
