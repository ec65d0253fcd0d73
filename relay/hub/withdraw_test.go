package hub_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/proof/memstore"
	"drawbridge/relay/hub"
	"drawbridge/relay/link"
)

// An invitation that is withdrawn lets no machine join, and one that was used cannot be withdrawn.
func TestWithdraw(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), nil)
	invite := func(name string) link.Invitation {
		token, err := s.NewToken(t.Context(), name, 0)
		fatal(t, err)
		in, err := link.NewInvitation(s.url, token.Text)
		fatal(t, err)
		return in
	}
	in, other := invite("laptop"), invite("tower")
	open, err := s.Invitations(t.Context())
	fatal(t, err)
	if len(open) != 2 || open[0].Relay != "laptop" || open[0].ExpiresAt.Sub(open[0].CreatedAt) != hub.DefaultJoinLife || open[1].Relay != "tower" {
		t.Errorf("open: %+v", open)
	}
	fatal(t, s.Withdraw(t.Context(), "laptop"))
	path := filepath.Join(t.TempDir(), link.DefaultFile)
	if _, err := link.Join(t.Context(), path, in, s.clock.now); err == nil || !strings.Contains(err.Error(), "was withdrawn") {
		t.Errorf("joined with what was withdrawn: %v", err)
	}
	if err := s.Withdraw(t.Context(), "laptop"); bridge.KindOf(err) != bridge.NotFound {
		t.Errorf("withdrawn twice: %v", err)
	}
	if _, err := link.Join(t.Context(), filepath.Join(t.TempDir(), link.DefaultFile), other, s.clock.now); err != nil {
		t.Errorf("the other one: %v", err)
	}
	if err := s.Withdraw(t.Context(), "tower"); bridge.KindOf(err) != bridge.NotFound || !strings.Contains(err.Error(), "relay revoke") {
		t.Errorf("withdrawn after a machine has joined: %v", err)
	}
	if open, err := s.Invitations(t.Context()); err != nil || len(open) != 0 {
		t.Errorf("open at the end: %+v, %v", open, err)
	}
}

// A machine joins while its invitation is withdrawn: exactly one of them is done.
func TestWithdrawWhileJoining(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), nil)
	for n := range 40 {
		name := fmt.Sprintf("relay-%d", n)
		token, err := s.NewToken(t.Context(), name, 0)
		fatal(t, err)
		in, err := link.NewInvitation(s.url, token.Text)
		fatal(t, err)
		path := filepath.Join(t.TempDir(), link.DefaultFile)
		joined := make(chan error, 1)
		go func() {
			_, err := link.Join(t.Context(), path, in, s.clock.now)
			joined <- err
		}()
		withdrawn := s.Withdraw(t.Context(), name)
		if join := <-joined; (join == nil) == (withdrawn == nil) {
			t.Fatalf("%s: joined %v, withdrawn %v", name, join, withdrawn)
		}
		_, err = s.RelayByName(t.Context(), name)
		if (err == nil) != (withdrawn != nil) {
			t.Fatalf("%s: withdrawn %v, enrolled %v", name, withdrawn, err)
		}
	}
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
