package chatsim

import (
	"strings"
	"sync"
)

// Turn is what a model says in turns of an agent: the first one that fits counts.
type Turn struct {
	// Agent is the agent's name as the system prompt has it; "" is any.
	Agent string `json:"agent"`
	// Match stands in the turn's own text, behind everything that a turn shows of earlier ones; "" is any.
	Match string `json:"match"`
	// Steps are the answers in order. Behind the last one the model says "Done.".
	Steps []Answer `json:"steps"`
}

// Scripted answers by turns. The place in a turn is how often the model has answered in it.
func Scripted(turns []Turn) func(Request, int) Answer {
	var mu sync.Mutex
	held := map[*Answer]int{}
	return func(r Request, _ int) Answer {
		system, user, at := "", "", 0
		for _, m := range r.Messages {
			switch m.Role {
			case "system":
				system = *m.Content
			case "user":
				user = *m.Content
			case "assistant":
				at++
			}
		}
		if _, own, ok := strings.Cut(user, "## Your turn\n"); ok {
			user = own
		}
		for _, t := range turns {
			if (t.Agent == "" || strings.Contains(system, "You are the agent "+t.Agent+";")) && strings.Contains(user, t.Match) {
				if at >= len(t.Steps) {
					break
				}
				a := &t.Steps[at]
				mu.Lock()
				defer mu.Unlock()
				if held[a]++; held[a] <= a.Hold {
					return Answer{Hang: true}
				}
				return *a
			}
		}
		return Answer{Text: "Done."}
	}
}
