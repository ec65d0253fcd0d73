package policy_test

import (
	"strings"
	"testing"

	"drawbridge/policy"
)

// spokenFor maps names that a reader takes for the operator, for everybody or for the
// bridge to the word that they look like.
var spokenFor = map[string]string{
	"operator": "operator", "Operator": "operator", "OPERATOR": "operator", "0per4tor": "operator", "0p3rat0r": "operator", "-operator-": "operator", "o_p_e_r_a_t_o_r": "operator",
	"oper.ator": "operator", "the-operator": "operator", "The_Operator": "operator", "operator2": "operator", "operator-1": "operator", "operators": "operator", "your-operator": "operator",
	"ореrаtоr": "operator", "ｏｐｅｒａｔｏｒ": "operator", "oper\u200bator": "operator", "USER": "user", "u5er": "user", "users": "user", "adm1n": "admin", "adrnin": "admin", "Bridge": "bridge",
	"draw-bridge": "drawbridge", "syst3m": "system", "re1ay": "relay", "assistant": "assistant", "all": "all", "AIl": "all", "everyone": "everyone", "every-one": "everyone",
	"here": "here", "channel": "channel", "you": "you", "Y0U": "you", "уоu": "you", "LOCAL_ACTION": "local_action", "subagent": "subagent", "SUBAGENT-3": "subagent", "human": "human", "person": "person",
	// Names made of reserved words.
	"bridge-system": "bridge", "BridgeSystem": "bridge", "bridgesystem": "bridge", "system2": "system", "system-2": "system", "2-system": "system", "drawbridge-v2": "drawbridge",
	"drawbridge-2.1": "drawbridge", "DrawbridgeV2": "drawbridge", "drawbridge-v2-rc1": "drawbridge", "user-operator": "user", "human.operator": "human", "the-user": "user",
	"operator-x": "operator", "1st-operator": "operator", "operator-ii": "operator", "oper-ator-2": "operator", "all-users": "user", "the_human": "human", "root1": "root",
	// Titles, adjectives and speech.
	"mr-operator": "operator", "MrOperator": "operator", "mroperator": "operator", "MR.OPERATOR": "operator", "dr_operator": "operator", "chief-operator": "operator", "real-operator": "operator",
	"the-real-operator": "operator", "TheOperator": "operator", "official-bridge": "bridge", "super-user": "user", "new-admin": "admin", "main-system": "system", "from-operator": "operator",
	"dear-user": "user", "operator_says": "operator", "operatorSays": "operator", "operatorsays": "operator", "system-message": "system", "systemmessage": "system", "bridge.notice": "bridge",
	"operator-approved": "operator", "operator_approves": "operator", "admin-reply": "admin", "operator-on-duty": "operator", "operator-team": "operator", "relay-voice": "relay", "0perat0r_s4ys": "operator",
	// A person's or a machine's name.
	"operator-kim": "operator", "OperatorKim": "operator", "operatorkim": "operator", "operator2kim": "operator", "oper-ator-kim": "operator", "user-kim": "user", "admin.joe": "admin", "owner-kim": "owner",
	"relay-laptop": "relay", "bridge-main": "bridge", "drawbridge-core": "drawbridge", "drawbridge-bot": "drawbridge", "system-agent": "system", "operator-bot": "operator", "human-kim": "human", "root-kim": "root",
	"operator-docs-says": "operator", "ор\u0435rator-kim": "operator", "OPERATOR-KIM": "operator",
	// Those in charge at the end.
	"kim-operator": "operator", "kim-the-operator": "operator", "KimOperator": "operator", "kimoperator": "operator", "night-operator": "operator", "it-admin": "admin", "security-admin": "admin",
	"kim-operator-says": "operator", "kim_operator_2": "operator", "not-drawbridge": "drawbridge", "kim-the-user": "user", "kim-the-human": "human", "postgres-operator": "operator",
}

// honest holds names that a person gives an agent, and that nobody takes for another.
var honest = []string{
	"main", "orchestrator", "docs-bot", "worker", "worker-1", "reviewer", "helper", "ai-1", "ai1", "a11", "child", "sibling", "operations", "operator-docs", "user-service", "relay-tests", "bridge-builder",
	"my-app-3f2a1c", "tester", "planner", "a", "b2", "x", "system-design", "mell", "allies", "agent-1", "coop", "release", "chat-0011223344556677",
	"operator-docs-bot", "OperatorDocsBot", "operator-sdk", "operator-tests", "k8s-operator-tests", "postgres-operator-dev", "operator-docs-v2", "operator-docs-2", "operator-helm-chart",
	"user-docs", "user-stories", "user-profile-page", "users-service", "user-api-v2", "UserService", "user_model", "user-onboarding-flow", "useless-code", "username-check", "userland",
	"admin-panel", "admin-dashboard", "admin-ui-tests", "system-tests", "system-design-review", "systemd-units", "build-system", "file-system", "ecosystem", "systematic-review",
	"relay-service", "mail-relay", "smtp-relay", "relayer", "bridge-tests", "mqtt-bridge", "london-bridge", "bridgehead", "cambridge", "drawbridge-docs", "drawbridge-tests", "drawbridge-sdk",
	"root-cause", "root-cause-analysis", "rootless", "beetroot", "person-search", "personal-site", "people-search", "human-resources", "owner-portal", "ownership-audit", "power-user", "test-user",
	"assistant-ui", "assistant-training", "all-tests", "all-green", "anyone-home", "here-maps", "theme", "themes", "them", "mean", "mesh", "channel-ui", "slack-channel", "broadcast-service", "prompt-tuner",
	"prompts", "parent-portal", "remind-service", "reminders", "self-hosting", "youtube", "allocator", "cooperation", "operating-costs", "moderation", "administration", "kim", "carol", "joe-2",
	"the-docs", "my-app", "new-site", "chief", "approval-flow", "messages", "v2-migration", "release-2.1", "docs.v3", "frontend", "api-gateway", "payments", "llm-eval", "data-pipeline-7", "webhook-receiver",
}

func TestReservedName(t *testing.T) {
	t.Parallel()
	for name, want := range spokenFor {
		if got := policy.ReservedName(name); got != want {
			t.Errorf("%q is taken for %q, want %q", name, got, want)
		}
	}
	for _, name := range honest {
		if got := policy.ReservedName(name); got != "" {
			t.Errorf("%q is taken for %q", name, got)
		}
	}
	if len(honest) < len(spokenFor) {
		t.Errorf("%d honest names stand beside %d others; there must be as many", len(honest), len(spokenFor))
	}
}

// TestReservedNameInEverySpelling dresses reserved words up by rule, one step after the other.
func TestReservedNameInEverySpelling(t *testing.T) {
	t.Parallel()
	title := func(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
	words := []string{"operator", "user", "admin", "drawbridge", "bridge", "system", "human", "relay"}
	joins := []string{"-", "_", ".", "--", "-_-"}
	spellings := []func(string) string{
		func(s string) string { return s }, strings.ToUpper, title,
		strings.NewReplacer("o", "0", "e", "3", "i", "1", "s", "5").Replace,
		strings.NewReplacer("o", "о", "e", "е", "a", "а").Replace, // Cyrillic
		func(s string) string { return s[:2] + "\u200d" + s[2:] },
	}
	for _, word := range words {
		for _, spell := range spellings {
			for _, join := range joins {
				w := spell(word)
				for _, name := range []string{
					w, "the" + join + w, w + join + "2", w + join + "v3", w + join + "says", "Mr" + join + w, w + join + "kim", w + join + "kim" + join + "2",
					"the" + join + "real" + join + w, w + join + spell("operator"), w + join + "approved", "7" + join + w, w + join + "bot", "hello" + join + w,
				} {
					if policy.ReservedName(name) == "" {
						t.Errorf("%+q passes", name)
					}
				}
				for _, name := range []string{w + join + "docs", w + join + "tests" + join + "2", w + join + "docs" + join + "bot", "my" + join + w + join + "sdk"} {
					if got := policy.ReservedName(name); got != "" {
						t.Errorf("%+q is taken for %q", name, got)
					}
				}
			}
		}
	}
}

func TestSoleReservedName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"operator": "operator", "0perat0r": "operator", "the-operator": "operator", "operator-2": "operator", "system2": "system", "everyone": "everyone",
		"draw-bridge": "drawbridge", "drawbridge-v2": "", "bridge-system": "", "operator-kim": "", "mr-operator": "", "kim-operator": "", "docs": "", "relay-docs": "",
	} {
		if got := policy.SoleReservedName(name); got != want {
			t.Errorf("%q is %q alone, want %q", name, got, want)
		}
	}
}

// TestReservedNameIsQuick: a name comes from strangers, and no spelling of it may cost long.
func TestReservedNameIsQuick(t *testing.T) {
	//nolint:paralleltest // it counts allocations
	for _, name := range []string{strings.Repeat("a", 64), strings.Repeat("the", 21), strings.Repeat("me-", 21), strings.Repeat("operator", 8), strings.Repeat("1", 64), strings.Repeat("a-1", 21), strings.Repeat("x", 1<<20)} {
		if n := testing.AllocsPerRun(1, func() { policy.ReservedName(name) }); n > 200_000 {
			t.Errorf("%.20q… of %d bytes costs %.0f allocations", name, len(name), n)
		}
	}
}
