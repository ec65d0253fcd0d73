package bridge

// NeedStory is what nearly every step about an agent looks at, so that it comes in
// one batch: the agent with its ancestors, the command that made it, its tree, its
// open turns, what waits for it, and the numbers that decide what it does next. It
// is only a hint: the needs that it stands for are loaded, and it is not asked for itself.
type NeedStory struct {
	needs
	// One of these says whose story it is: a turn of the agent, whose notices and
	// commands belong to it, a command of the agent, or the agent itself.
	Turn    TurnID
	Command CommandID
	Agent   AgentID
}

// StoryNotices and StoryCommands are how many notices and commands a story has, as
// the engine asks for them.
const (
	StoryNotices  = 110
	StoryCommands = 100
)
