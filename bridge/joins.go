package bridge

import "time"

// MailLane is where the work of a message waits.
func MailLane(id MessageID) string { return "mail/" + string(id) }

// maxAwaited bounds how many messages are looked at when an agent falls silent;
// the others are looked at when their time is over.
const maxAwaited = 1000

// LookAtAwaited wakes the work of each message whose sender waits for the agent's
// answer, because the agent may not be able to answer any more. Twice is fine.
func LookAtAwaited(tx *Scene, agent AgentID, now time.Time) error {
	waiting, err := tx.AwaitedFrom(agent, maxAwaited)
	if err != nil || len(waiting) == 0 {
		return err
	}
	lanes := make([]string, len(waiting))
	for i, l := range waiting {
		lanes[i] = MailLane(l.Message)
	}
	return tx.WakeLanes(lanes, now)
}
