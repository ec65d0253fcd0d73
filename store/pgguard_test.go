package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"drawbridge/bridge"
	"drawbridge/parser"
	"drawbridge/proof/pg"
	"drawbridge/store"
)

// sideBySide are two steps that do the same things at the same moment on two replicas. Each is called with a function that it
// calls between what it reads and what it writes.
type sideBySide struct {
	first, second func(tx *bridge.Scene, between func()) error
	// after says what is wrong when both have ended.
	after func(tx *bridge.Scene) error
}

// TestPostgresNothingIsUndone: a step does not write back what another one has changed since it was read, whichever way it came
// into the step, and two steps together do not pass a bound that each of them would keep.
func TestPostgresNothingIsUndone(t *testing.T) {
	t.Parallel()
	address := pg.Database(t)
	a, b := open(t, address), open(t, address)
	for name, c := range map[string]sideBySide{
		"a token is revoked while it is used":     {revokeToken, useToken, tokenIs},
		"a token is used while it is revoked":     {useToken, revokeToken, tokenIs},
		"agents out of a list":                    {deepenListed, deepenListed, deepIs(2)},
		"an agent by its name":                    {deepenNamed, deepenListed, deepIs(2)},
		"a conversation":                          {closeChannel, renameChannel, channelIs},
		"the members of a conversation":           {enter("agt_left"), enter("agt_right"), oneMember},
		"a message that two change":               {fileMessage, editMessage, messageIs},
		"subagents that are open in the bridge":   {spawn("agt_left"), spawn("agt_right"), oneSpawned},
		"launches of an hour":                     {launch("agt_left"), launch("agt_right"), oneLaunched},
		"launches that follow a look at the tree": {lookAnd("agt_left"), lookAnd("agt_right"), oneLaunched},
	} {
		t.Run(name, func(t *testing.T) {
			clean(t, address)
			runSideBySide(t, a, b, c)
		})
	}
}

func clean(t *testing.T, address string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Exec(t.Context(), "TRUNCATE agents, turns, commands, door_tokens, conversations, members, messages, letters")
	must(t, errors.Join(err, conn.Close(t.Context())))
}

func runSideBySide(t *testing.T, a, b *store.Store, c sideBySide) {
	t.Helper()
	must(t, a.Update(t.Context(), furnish))
	within, goOn, done := make(chan struct{}, 1000), make(chan struct{}), make(chan error, 2)
	go func() {
		done <- a.Update(t.Context(), func(tx *bridge.Scene) error {
			return c.first(tx, func() { within <- struct{}{}; <-goOn })
		})
	}()
	<-within
	go func() {
		done <- b.Update(t.Context(), func(tx *bridge.Scene) error { return c.second(tx, func() {}) })
	}()
	select { // it has ended, or it waits for the first
	case err := <-done:
		done <- err
	case <-time.After(200 * time.Millisecond):
	}
	close(goOn)
	for range 2 {
		if err := <-done; err != nil && !errors.Is(err, errFull) {
			t.Error(err)
		}
	}
	must(t, a.View(t.Context(), c.after))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

var (
	errFull = errors.New("it is full")
	noon    = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
)

func furnish(tx *bridge.Scene) error {
	for _, id := range []bridge.AgentID{"agt_left", "agt_right"} {
		if err := tx.InsertAgent(bridge.Agent{ID: id, Name: string(id), Root: id, State: bridge.AgentIdle}); err != nil {
			return err
		}
	}
	return errors.Join(
		tx.InsertToken(bridge.DoorToken{ID: "tok_1", Agent: "agt_left", Hash: "hash", CreatedAt: noon}),
		tx.InsertConversation(bridge.Conversation{ID: "chn_1", Kind: bridge.MailChannel, Name: "hall", Status: bridge.ConversationActive}),
		tx.InsertMessage(bridge.Message{ID: "msg_1", Kind: bridge.MailDirect, From: "agt_left", Text: "one", CreatedAt: noon}),
	)
}

func useToken(tx *bridge.Scene, between func()) error {
	err := tx.UseToken("tok_1", noon.Add(time.Hour))
	if err == nil {
		between()
	}
	return err
}

func revokeToken(tx *bridge.Scene, between func()) error {
	if _, err := tx.Tokens("agt_left"); err != nil {
		return err
	}
	between()
	_, err := tx.RevokeTokens("agt_left", noon)
	return err
}

func tokenIs(tx *bridge.Scene) error {
	all, err := tx.Tokens("agt_left")
	if err == nil && (!all[0].Revoked() || all[0].LastUsed.IsZero()) {
		err = fmt.Errorf("a token that was revoked and used is %+v", all[0])
	}
	return err
}

func deepenListed(tx *bridge.Scene, between func()) error {
	all, err := tx.Agents(bridge.AgentFilter{Limit: 10})
	if err != nil {
		return err
	}
	between()
	for _, a := range all {
		if a.ID == "agt_left" {
			a.Depth++
			err = tx.UpdateAgent(a)
		}
	}
	return err
}

func deepenNamed(tx *bridge.Scene, between func()) error {
	a, err := tx.FindAgent(bridge.ByName, "agt_left")
	if err != nil {
		return err
	}
	between()
	a.Depth++
	return tx.UpdateAgent(a)
}

func deepIs(want int) func(*bridge.Scene) error {
	return func(tx *bridge.Scene) error {
		a, err := tx.Agent("agt_left")
		if err == nil && a.Depth != want {
			err = fmt.Errorf("%d of %d updates are there", a.Depth, want)
		}
		return err
	}
}

func closeChannel(tx *bridge.Scene, between func()) error {
	c, err := tx.FindChannel("hall")
	if err != nil {
		return err
	}
	between()
	c.Status = bridge.ConversationClosed
	return tx.UpdateConversation(c)
}

func renameChannel(tx *bridge.Scene, between func()) error {
	c, err := tx.Conversation("chn_1")
	if err != nil {
		return err
	}
	between()
	c.Title = "new"
	return tx.UpdateConversation(c)
}

func channelIs(tx *bridge.Scene) error {
	c, err := tx.Conversation("chn_1")
	if err == nil && (c.Title != "new" || c.Status != bridge.ConversationClosed) {
		err = fmt.Errorf("a channel that was closed and got a title is %+v", c)
	}
	return err
}

// enter makes an agent a member when nobody is one.
func enter(id bridge.AgentID) func(*bridge.Scene, func()) error {
	return func(tx *bridge.Scene, between func()) error {
		all, err := tx.Members("chn_1")
		if err != nil {
			return err
		}
		between()
		if len(all) > 0 {
			return errFull
		}
		_, err = tx.AddMember("chn_1", id, noon)
		return err
	}
}

func oneMember(tx *bridge.Scene) error {
	all, err := tx.Members("chn_1")
	if err == nil && len(all) != 1 {
		err = fmt.Errorf("%v are members", all)
	}
	return err
}

func fileMessage(tx *bridge.Scene, between func()) error {
	m, err := tx.Message("msg_1")
	if err != nil {
		return err
	}
	between()
	m.JoinBy = noon
	return tx.UpdateMessage(m)
}

func editMessage(tx *bridge.Scene, between func()) error {
	m, err := tx.Message("msg_1")
	if err != nil {
		return err
	}
	between()
	m.Text = "two"
	return tx.UpdateMessage(m)
}

func messageIs(tx *bridge.Scene) error {
	m, err := tx.Message("msg_1")
	if err == nil && (m.Text != "two" || m.JoinBy.IsZero()) {
		err = fmt.Errorf("a message that two changed is %+v", m)
	}
	return err
}

// spawn adds a subagent when none is open in the whole bridge.
func spawn(root bridge.AgentID) func(*bridge.Scene, func()) error {
	return func(tx *bridge.Scene, between func()) error {
		child := bridge.Agent{ID: root + "_child", Name: "child", Root: root, Parent: root, State: bridge.AgentBusy}
		if err := tx.InsertAgent(child); err != nil { // first, because it locks the tree
			return err
		}
		n, err := tx.CountOpenSubagents("")
		if err != nil {
			return err
		}
		between()
		if n > 1 {
			return errFull
		}
		return nil
	}
}

func oneSpawned(tx *bridge.Scene) error {
	n, err := tx.CountOpenSubagents("")
	if err == nil && n != 1 {
		err = fmt.Errorf("%d subagents are open", n)
	}
	return err
}

// launch records a launch when there was none in the whole bridge.
func launch(root bridge.AgentID) func(*bridge.Scene, func()) error {
	return func(tx *bridge.Scene, between func()) error {
		n, err := tx.CountLaunches(noon.Add(-time.Hour))
		if err != nil {
			return err
		}
		between()
		if n > 0 {
			return errFull
		}
		return tx.InsertCommand(bridge.Command{ID: bridge.CommandID("cmd_" + root), OpKey: string(root), Turn: bridge.TurnID(root), Agent: root, State: bridge.CommandGranted,
			Child: root + "_child", Parsed: parser.Command{Verb: parser.Subagent}, CreatedAt: noon, UpdatedAt: noon})
	}
}

// lookAnd is launch after a look at the tree, as the engine does it: the bridge's lock comes behind the tree's.
func lookAnd(root bridge.AgentID) func(*bridge.Scene, func()) error {
	return func(tx *bridge.Scene, between func()) error {
		if _, err := tx.Agent(root); err != nil {
			return err
		}
		return launch(root)(tx, between)
	}
}

func oneLaunched(tx *bridge.Scene) error {
	n, err := tx.CountLaunches(noon.Add(-time.Hour))
	if err == nil && n != 1 {
		err = fmt.Errorf("%d launches are recorded", n)
	}
	return err
}
