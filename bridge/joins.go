package bridge

import "time"

// MailLane is where the work of a message waits.
func MailLane(id MessageID) string { return "mail/" + string(id) }

// maxJoins bounds how many broadcasts are looked at when an agent falls silent;
// the others are looked at when their time is over.
const maxJoins = 1000

// LookAtJoins has the broadcasts looked at whose joined answers wait for an agent,
// because it may not be able to answer any more. Twice is fine.
func LookAtJoins(tx interface {
	MailTx
	LaneTx
}, agent AgentID, now time.Time) error {
	waiting, err := tx.AwaitedJoins(agent, maxJoins)
	if err != nil || len(waiting) == 0 {
		return err
	}
	lanes := make([]string, len(waiting))
	for i, id := range waiting {
		lanes[i] = MailLane(id)
	}
	return tx.WakeLanes(lanes, now)
}
