package mcpserver_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"drawbridge/bridge"
	"drawbridge/mcpserver"
	"drawbridge/proof/memstore"
)

// list_allowed says who has to agree to an action: the operator by the allowlist, and whoever counts at the relay that would run it.
// A relay of before, which does not say whether its machine counts, is told as far as it tells.
func TestListAllowedSaysWhoApproves(t *testing.T) {
	t.Parallel()
	db := memstore.NewDisk().Open()
	err := db.Update(t.Context(), func(tx *bridge.Scene) error {
		for relay, offers := range map[string][]bridge.RelayOffer{
			"laptop": {
				{Action: "backup_script", Approval: "each", Bridge: true, ApproveBy: "either"},
				{Action: "lock_screen", Approval: "once per 1h0m0s", ApproveBy: "machine"},
			},
			"old": {
				{Action: "backup_script", Approval: "each"},
				{Action: "free", Approval: "each", Bridge: true},
				{Action: "unlisted", Approval: "each"},
			},
		} {
			if err := tx.PutRelay(bridge.Relay{Name: relay, State: bridge.RelayEnrolled}); err != nil {
				return err
			}
			if err := tx.PutOffers(relay, offers); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldOn(t, db)
	w.launch("main")
	got := good[mcpserver.Allowed](w, w.connect("main", newEra, ""), "list_allowed", nil)
	want := map[string][]string{
		"backup_script": {"at its relay the operator or a person at the machine"},
		"free":          {"at its relay the operator, or also a person at the machine if the relay's file says approve_by: either"},
		"lock_screen":   {"the operator", "at its relay a person at the machine"},
	}
	if diff := cmp.Diff(want, got.Approvals); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
