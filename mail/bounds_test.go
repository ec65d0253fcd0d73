package mail_test

import (
	"fmt"
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/mail"
)

// TestFilesPerAgent: one agent once filled the disk with files, one after another.
func TestFilesPerAgent(t *testing.T) {
	t.Parallel()
	w := newFileWorld(t, mail.Options{Files: t.TempDir(), MaxFile: 100, FilesPer: 3, FileBytes: 150, PerPair: -1})
	w.team("ann", "bob")
	give := func(from string, size int) (bridge.File, error) {
		f, _, err := w.mail.Transfer(w.ctx, w.id(from), mail.FileDraft{To: map[string]string{"ann": "bob", "bob": "ann"}[from], Name: "f", Content: strings.NewReader(strings.Repeat("x", size))})
		return f, err
	}
	first, err := give("ann", 100)
	wantKind(t, "a file", err, "")
	_, err = give("ann", 51)
	wantKind(t, "too many bytes", err, bridge.Conflict)
	holds(t, bridge.SafeMessage(err), "100 bytes", "limit of 150", "drawbridge message delete fil_")
	_, err = give("bob", 51)
	wantKind(t, "another agent's file", err, "")
	for range 2 {
		_, err = give("ann", 0)
		wantKind(t, "a small file", err, "")
	}
	_, err = give("ann", 0)
	wantKind(t, "too many files", err, bridge.Conflict)
	holds(t, bridge.SafeMessage(err), "3 files", "limit", "drawbridge message delete fil_")
	if err := w.mail.DeleteFile(w.ctx, first.ID); err != nil {
		t.Fatal(err)
	}
	_, err = give("ann", 100)
	wantKind(t, "after one was deleted", err, "")
}

// TestThreadsPerAgent bounds the open threads that an agent made, and those that it is in.
func TestThreadsPerAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mail.Options{PerPair: -1, ThreadsPer: 3, ThreadsOf: 4})
	w.team("ann", "bob", "cy")
	start := func(from string, with ...string) (bridge.ConversationID, error) {
		v, _, err := w.mail.CreateThread(w.ctx, w.id(from), mail.ThreadDraft{Title: "t", Participants: with})
		return v.ID, err
	}
	var made []bridge.ConversationID
	for range 3 {
		id, err := start("ann", "bob")
		wantKind(t, "a thread", err, "")
		made = append(made, id)
	}
	_, err := start("ann", "bob")
	wantKind(t, "one too many", err, bridge.Conflict)
	holds(t, bridge.SafeMessage(err), "3 threads that you made are open", "drawbridge channels close thr_")
	_, err = w.mail.SetStatus(w.ctx, string(made[0]), bridge.ConversationClosed)
	wantKind(t, "close", err, "")
	_, err = start("ann")
	wantKind(t, "after one was closed", err, "")

	for range 2 {
		_, err = start("bob")
		wantKind(t, "a thread of the member", err, "")
	}
	_, err = start("bob")
	wantKind(t, "a member of too many makes one", err, bridge.Conflict)
	holds(t, bridge.SafeMessage(err), "you are in 4 open threads", "leave one first")
	third, err := start("cy")
	wantKind(t, "a third's thread", err, "")
	_, _, err = w.mail.Join(w.ctx, w.id("bob"), third)
	wantKind(t, "a member of too many joins one", err, bridge.Conflict)
	_, _, err = w.mail.AddParticipant(w.ctx, w.id("cy"), third, "bob")
	wantKind(t, "a member of too many is added", err, bridge.Conflict)
	_, err = start("cy", "bob")
	wantKind(t, "a member of too many is named", err, bridge.Conflict)
	holds(t, bridge.SafeMessage(err), "bob is in 4 open threads", "it must leave one first")
	_, err = w.mail.Leave(w.ctx, w.id("bob"), made[1])
	wantKind(t, "leave", err, "")
	_, joined, err := w.mail.Join(w.ctx, w.id("bob"), third)
	if err != nil || !joined {
		t.Errorf("after it left one: %v, %v", joined, err)
	}
}

// TestReactionsPerMessage bounds the emojis of one agent on one message, not those of others.
func TestReactionsPerMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, mail.Options{PerPair: -1})
	w.team("ann", "bob")
	sent, err := w.mail.DM(w.ctx, w.id("ann"), "bob", "hello")
	if err != nil {
		t.Fatal(err)
	}
	emoji := func(n int) string { return fmt.Sprintf(":e%d:", n) }
	for n := range 20 {
		if _, err := w.mail.React(w.ctx, w.id("bob"), sent.Message.ID, emoji(n)); err != nil {
			t.Fatalf("reaction %d: %v", n, err)
		}
	}
	_, err = w.mail.React(w.ctx, w.id("bob"), sent.Message.ID, emoji(20))
	wantKind(t, "one too many", err, bridge.Conflict)
	_, err = w.mail.React(w.ctx, w.id("bob"), sent.Message.ID, emoji(0))
	wantKind(t, "one that is there", err, "")
	_, err = w.mail.React(w.ctx, w.id("ann"), sent.Message.ID, emoji(20))
	wantKind(t, "another's", err, "")
	_, err = w.mail.Unreact(w.ctx, w.id("bob"), sent.Message.ID, emoji(0))
	wantKind(t, "take one away", err, "")
	_, err = w.mail.React(w.ctx, w.id("bob"), sent.Message.ID, emoji(20))
	wantKind(t, "after one was taken away", err, "")
}
