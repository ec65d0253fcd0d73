package mcpserver

import (
	"context"
	"math"

	"drawbridge/bridge"
	"drawbridge/mail"
)

// threadList is the answer of list_threads. Next is "" on the last page.
type threadList struct {
	Threads []ThreadListed `json:"threads"`
	Next    string         `json:"next,omitempty"`
}

// ThreadListed is a thread in a list. Member says whether the caller is in it; only
// then Participants are shown.
type ThreadListed struct {
	ThreadView
	Member bool `json:"member"`
}

type listThreadsArgs struct {
	Agent  string   `json:"agent_id"`
	Limit  *float64 `json:"limit"`
	Before string   `json:"before"`
}

// Bounds of one list of threads.
const (
	usualThreads = 20
	maxThreads   = 100
)

func (d *Door) listThreads(ctx context.Context, c *caller, in listThreadsArgs) (answer, error) {
	if err := c.is("agent_id", in.Agent); err != nil {
		return answer{}, err
	}
	limit := usualThreads
	if in.Limit != nil {
		n, err := whole("limit", *in.Limit, math.MaxInt32)
		if err == nil && n == 0 {
			err = bridge.Errorf(bridge.Invalid, "limit must be at least 1")
		}
		if err != nil {
			return answer{}, err
		}
		limit = min(n, maxThreads)
	}
	page, err := d.o.Mail.Threads(ctx, c.agent.ID, bridge.ConversationID(in.Before), limit)
	if err != nil {
		return answer{}, err
	}
	out := threadList{Threads: []ThreadListed{}, Next: string(page.Next)}
	for _, t := range page.Threads {
		out.Threads = append(out.Threads, viewListed(t))
	}
	return answer{data: out}, nil
}

func viewListed(t mail.Listed) ThreadListed {
	return ThreadListed{ThreadView: viewThread(t.Conversation), Member: t.Member}
}
