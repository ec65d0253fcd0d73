package timeline_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"drawbridge/api/timeline"
	"drawbridge/bridge"
	"drawbridge/proof/memstore"
)

// town is a store with two trees: main over ann and bob, ann over deep; and the root other.
type town struct {
	*memstore.Store
	changed chan struct{}
	revoked atomic.Bool
}

// View implements timeline.Source.
func (w *town) View(ctx context.Context, fn func(*bridge.Scene) error) error {
	return w.Store.View(ctx, fn)
}

// Watch implements timeline.Source.
func (w *town) Watch() (<-chan struct{}, func()) { return w.changed, func() {} }

// Holder implements timeline.Holders: a token is its agent's id.
func (w *town) Holder(_ context.Context, secret string) (bridge.DoorToken, error) {
	if w.revoked.Load() {
		return bridge.DoorToken{}, bridge.Errorf(bridge.Unauthenticated, "revoked")
	}
	return bridge.DoorToken{Agent: bridge.AgentID(secret)}, nil
}

func newTown(t *testing.T) *town {
	t.Helper()
	w := &town{Store: memstore.NewDisk().Open(), changed: make(chan struct{}, 1)}
	w.do(t, func(tx *bridge.Scene) error {
		for _, a := range [][3]string{{"main", "", "main"}, {"ann", "main", "main"}, {"bob", "main", "main"}, {"deep", "ann", "main"}, {"other", "", "other"}} {
			if err := tx.InsertAgent(bridge.Agent{ID: bridge.AgentID(a[0]), Name: a[0], Parent: bridge.AgentID(a[1]), Root: bridge.AgentID(a[2]), OpKey: a[0]}); err != nil {
				return err
			}
		}
		return nil
	})
	return w
}

func (w *town) do(t *testing.T, fn func(*bridge.Scene) error) {
	t.Helper()
	if err := w.Update(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

// tell appends an event of an agent with a text that names it.
func (w *town) tell(t *testing.T, kind string, agent bridge.AgentID, fields map[string]string) {
	t.Helper()
	w.do(t, func(tx *bridge.Scene) error {
		err := tx.AppendEvent(bridge.Event{Kind: kind, Agent: agent, Name: string(agent), Turn: "trn_1", Text: "words of " + string(agent), Fields: fields})
		return err
	})
}

// message records one with a letter for each recipient, and its event.
func (w *town) message(t *testing.T, m bridge.Message, to ...bridge.AgentID) {
	t.Helper()
	w.do(t, func(tx *bridge.Scene) error {
		for _, a := range to {
			if err := tx.InsertLetter(bridge.Letter{Message: m.ID, Agent: a, From: m.From, Notice: bridge.NoticeID(string(m.ID) + string(a))}); err != nil {
				return err
			}
		}
		return tx.InsertMessage(m)
	})
	w.tell(t, bridge.EventMessageCreated, m.From, map[string]string{"message": string(m.ID), "text": "text of " + string(m.ID)})
}

// seen returns what an agent reads from the beginning: kind, name and text of each event, and who asked for it.
func (w *town) seen(t *testing.T, agent string) []string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/events", nil)
	r.Header.Set("Authorization", "Bearer "+agent)
	r.Header.Set("Last-Event-Id", "0")
	reader, err := timeline.ForAgent(r, w, w)
	if err != nil {
		t.Fatal(err)
	}
	reader.Seed = false
	out, over := httptest.NewRecorder(), make(chan error)
	go func() { over <- timeline.StreamNew(out, r, reader) }()
	synctest.Wait()
	cancel()
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	all := []string{}
	for line := range strings.Lines(out.Body.String()) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			var e timeline.Event
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				t.Fatal(err)
			}
			all = append(all, strings.TrimSpace(e.Kind+" "+e.Name+" "+e.Fields["text"]+e.Fields["secret"]+e.Fields["by"]+e.Fields["address"]+" "+e.Text))
		}
	}
	return all
}

// What an agent may read on the timeline is what its tools may tell it. It guards
// against the whole tree's mail, replies and memory being told to every agent of it.
func TestAgentSeesWhatItsToolsTell(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t)
		w.message(t, bridge.Message{ID: "msg_dm", From: "ann", Kind: bridge.MailDirect}, "bob")
		w.do(t, func(tx *bridge.Scene) error {
			if err := tx.InsertConversation(bridge.Conversation{ID: "chn_1", Kind: bridge.MailChannel, Name: "general"}); err != nil {
				return err
			}
			_, err := tx.AddMember("chn_1", "bob", time.Time{})
			_, otherErr := tx.AddMember("chn_1", "other", time.Time{})
			return errors.Join(err, otherErr)
		})
		w.message(t, bridge.Message{ID: "msg_chn", From: "other", Kind: bridge.MailChannel, Conversation: "chn_1"})
		w.message(t, bridge.Message{ID: "msg_gone", From: "ann", Kind: bridge.MailDirect, DeletedAt: time.Unix(9, 0)}, "bob")
		w.tell(t, bridge.EventReactionAdded, "ann", map[string]string{"message": "msg_dm"})
		w.tell(t, bridge.EventReply, "deep", map[string]string{"secret": "reply"})
		w.tell(t, bridge.EventMemory, "ann", nil)
		w.tell(t, bridge.EventGranted, "deep", map[string]string{"secret": "prompt", "by": "ann", "address": "192.0.2.7"})
		for _, kind := range []string{bridge.EventHeld, bridge.EventApproved} { // with what would run at the user's machine
			w.tell(t, kind, "deep", map[string]string{"verb": "LOCAL_ACTION", "action": "backup"})
		}
		w.tell(t, bridge.EventHeld, "deep", map[string]string{"verb": "SUBAGENT"})
		w.tell(t, bridge.EventReply, "other", nil)
		for agent, want := range map[string][]string{
			"ann": {"message_created ann text of msg_dm words of ann", "message_created ann", "reaction_added ann  words of ann",
				"reply deep reply words of deep", "memory ann  words of ann"},
			"bob":  {"message_created ann text of msg_dm words of ann", "message_created other text of msg_chn words of other", "message_created ann", "reaction_added ann  words of ann", "reply deep"},
			"main": {"reply deep reply words of deep"},
			"deep": {"reply deep reply words of deep", "granted deep prompt words of deep",
				"held deep  LOCAL_ACTION backup", "approved deep  LOCAL_ACTION backup", "held deep  words of deep"},
			// A conversation reaches over trees, and what its own members write there is theirs to see.
			"other": {"message_created other text of msg_chn words of other", "reply other  words of other"},
		} {
			if d := cmp.Diff(want, w.seen(t, agent)); d != "" {
				t.Errorf("%s sees (-want +got):\n%s", agent, d)
			}
		}
	})
}

// An agent that was removed from a thread reads nothing more of it on its stream: no
// new words under a message that it got, and no reaction, not even to its own.
func TestRemovedMemberSeesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t)
		w.do(t, func(tx *bridge.Scene) error {
			if err := tx.InsertConversation(bridge.Conversation{ID: "thr_1", Kind: bridge.MailThread, Title: "plan"}); err != nil {
				return err
			}
			_, annErr := tx.AddMember("thr_1", "ann", time.Time{})
			_, bobErr := tx.AddMember("thr_1", "bob", time.Time{})
			return errors.Join(annErr, bobErr)
		})
		w.message(t, bridge.Message{ID: "msg_got", From: "ann", Kind: bridge.MailThread, Conversation: "thr_1"}, "bob")
		w.message(t, bridge.Message{ID: "msg_own", From: "bob", Kind: bridge.MailThread, Conversation: "thr_1"}, "ann")
		if got := w.seen(t, "bob"); len(got) != 2 {
			t.Errorf("a member sees %q", got)
		}
		w.do(t, func(tx *bridge.Scene) error {
			_, err := tx.RemoveMember("thr_1", "bob")
			return err
		})
		w.tell(t, bridge.EventMessageUpdated, "ann", map[string]string{"message": "msg_got", "text": "secret"})
		w.tell(t, bridge.EventReactionAdded, "ann", map[string]string{"message": "msg_own"})
		if d := cmp.Diff([]string{}, w.seen(t, "bob")); d != "" {
			t.Errorf("a removed member sees (-want +got):\n%s", d)
		}
		if got := w.seen(t, "ann"); len(got) != 4 {
			t.Errorf("ann sees %q", got)
		}
	})
}

// A token that was revoked while its stream stood open tells nothing that comes after.
func TestRevokedTokenEndsTheStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/events", nil)
		r.Header.Set("Authorization", "Bearer ann")
		r.Header.Set("Last-Event-Id", "0")
		reader, err := timeline.ForAgent(r, w, w)
		if err != nil {
			t.Fatal(err)
		}
		w.tell(t, bridge.EventReply, "ann", nil)
		out, over := httptest.NewRecorder(), make(chan error)
		go func() { over <- timeline.StreamNew(out, r, reader) }()
		synctest.Wait()
		w.revoked.Store(true)
		w.tell(t, bridge.EventMemory, "ann", nil)
		w.changed <- struct{}{}
		if err := <-over; err != nil {
			t.Fatal(err)
		}
		kinds := slices.DeleteFunc(strings.Split(out.Body.String(), "\n"), func(line string) bool { return !strings.HasPrefix(line, "event: ") })
		if d := cmp.Diff([]string{"event: reply", "event: agent_done"}, kinds); d != "" {
			t.Errorf("the stream told (-want +got):\n%s", d)
		}
	})
}
