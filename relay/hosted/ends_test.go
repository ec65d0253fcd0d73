package hosted_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"drawbridge/bridge"
	"drawbridge/relay/hosted"
	"drawbridge/relay/hub"
	"drawbridge/relay/wire"
)

// ends is a relay whose agent answers each turn at once.
type ends struct{ hosted.Turns }

func (ends) RunTurn(_ context.Context, c hub.TurnCall) (wire.TurnEnded, error) {
	return wire.TurnEnded{ID: c.ID, Cause: wire.TurnAnswered, Text: "answer"}, nil
}

func (ends) LookupTurn(_ context.Context, c hub.TurnCall) (wire.TurnFound, error) {
	return wire.TurnFound{Known: wire.TurnKnownEnded, Ended: &wire.TurnEnded{ID: c.ID, Cause: wire.TurnAnswered, Text: "answer"}}, nil
}

// TestEndsThatAnotherReplicaReads: a replica that says turns whose ends another one reads goes on saying turns, and keeps a few ends alone.
func TestEndsThatAnotherReplicaReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, endsThatAnotherReplicaReads)
}

func endsThatAnotherReplicaReads(t *testing.T) {
	r := hosted.New(hosted.Options{Turns: ends{}, Relay: "laptop", Agent: "acp"})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	synctest.Wait()
	var first bridge.Started
	for i := range hosted.MaxWaits + 100 {
		s, err := r.Send(t.Context(), bridge.FollowUp{Agent: "s", Text: fmt.Sprint(i), Marker: "[bridge s]"})
		if err != nil {
			t.Fatalf("turn %d: %v", i, err)
		}
		if i == 0 {
			first = s
		}
	}
	if n := r.Waits(); n > hosted.MaxEnds+1 {
		t.Errorf("it keeps %d ends; want %d at most", n, hosted.MaxEnds)
	}
	if got, err := r.Observe(t.Context(), bridge.RunRef{Agent: "s", Run: first.Run, Marker: "[bridge s]"}); err != nil || got.Reply != "answer" {
		t.Errorf("the first turn, from the relay's record: %+v %v", got, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
