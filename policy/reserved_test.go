package policy_test

import (
	"testing"

	"drawbridge/policy"
)

func TestReservedName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"operator": "operator", "Operator": "operator", "OPERATOR": "operator", "0per4tor": "operator", "0p3rat0r": "operator", "-operator-": "operator", "o_p_e_r_a_t_o_r": "operator",
		"oper.ator": "operator", "the-operator": "operator", "The_Operator": "operator", "operator2": "operator", "operator-1": "operator", "operators": "operator", "your-operator": "operator",
		"ореrаtоr": "operator", "ｏｐｅｒａｔｏｒ": "operator", "oper\u200bator": "operator", "USER": "user", "u5er": "user", "users": "user", "adm1n": "admin", "adrnin": "admin", "Bridge": "bridge",
		"draw-bridge": "drawbridge", "syst3m": "system", "re1ay": "relay", "assistant": "assistant", "all": "all", "AIl": "all", "everyone": "everyone", "every-one": "everyone",
		"here": "here", "channel": "channel", "you": "you", "Y0U": "you", "LOCAL_ACTION": "local_action", "subagent": "subagent", "SUBAGENT-3": "subagent", "human": "human", "person": "person",
	} {
		if got := policy.ReservedName(name); got != want {
			t.Errorf("%q is taken for %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"main", "orchestrator", "docs-bot", "worker", "worker-1", "reviewer", "helper", "ai-1", "ai1", "a11", "child", "sibling", "operations", "operator-docs", "user-service", "relay-tests", "bridge-builder",
		"my-app-3f2a1c", "tester", "planner", "a", "b2", "x", "system-design", "mell", "allies", "agent-1", "coop", "release", "chat-0011223344556677"} {
		if got := policy.ReservedName(name); got != "" {
			t.Errorf("%q is taken for %q", name, got)
		}
	}
}
