package engine

import (
	"time"

	"drawbridge/bridge"
)

// The hints name what a step will look at, so that it comes in one round trip. A
// look-up that they leave out costs one more; one that nothing looks at costs a statement.

// hintsOf names what each step of a turn looks at.
func hintsOf(j job) []bridge.Need {
	job := bridge.NeedJob{Turn: j.turn.ID, Agent: j.agent.ID, Parent: j.agent.Parent, Root: j.agent.Root, Command: j.command.ID}
	hints := []bridge.Need{job, bridge.NeedWork{ID: j.work.ID}}
	if j.turn.State == bridge.TurnQueued {
		hints = append(hints, bridge.NeedInFlight{Agent: j.agent.ID}, bridge.NeedLastOver{Agent: j.agent.ID})
	}
	return hints
}

// beginning names what a turn's way to the API looks at besides.
func (j job) beginning(now time.Time) []bridge.Need {
	hints := []bridge.Need{bridge.NeedOldEchoes{Agent: j.agent.ID, Age: oldEchoes(j, now)}, bridge.NeedCarried{Turn: j.turn.ID}, bridge.NeedOpenSubagents{Root: j.agent.Root}}
	if j.launch == nil {
		hints = append(hints, bridge.NeedWaiting{Agent: j.agent.ID, Limit: maxJoined}, bridge.NeedBlocks{Agent: j.agent.ID})
	}
	return hints
}

// ending names what the end of a turn looks at besides, up to the agent that waits for its result.
func (j job) ending() []bridge.Need {
	id := j.agent.ID
	hints := []bridge.Need{bridge.NeedDeliveries{Op: id, Limit: 1}, bridge.NeedCarried{Turn: j.turn.ID}, bridge.NeedWaiting{Agent: id, Limit: maxJoined},
		bridge.NeedOpenTurnCount{Agent: id}, bridge.NeedOpenCommands{Agent: id}, bridge.NeedAwaitedFrom{Agent: id, Limit: 100}, bridge.NeedAwaitedBy{Sender: id, Limit: 1}}
	if j.agent.Parent != "" {
		hints = append(hints, bridge.NeedStory{Agent: j.agent.Parent})
	}
	if j.command.Turn != "" {
		asked := bridge.CommandFilter{Turn: j.command.Turn, Limit: bridge.StoryCommands}
		hints = append(hints, bridge.NeedTurn{ID: j.command.Turn}, bridge.NeedCommands{CommandFilter: asked})
	}
	return hints
}
