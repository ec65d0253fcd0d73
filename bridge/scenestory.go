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
	// Brief leaves out everything but the agent with its ancestors, its command, its
	// tree, the turn and which turn the agent is in.
	Brief bool
}

// NeedJob is what each step of a turn looks at, for a caller that knows whose turn it
// is: the turn, its agent with its ancestors, the agent's command and its tree. It is
// only a hint, as NeedStory is. The lock of the tree is known without a look-up.
type NeedJob struct {
	needs
	Turn TurnID
	// Parent is the agent's parent, "" for the root of a tree; Command made the agent, "" for none.
	Agent, Parent, Root AgentID
	Command             CommandID
}

// StoryNotices and StoryCommands are how many notices and commands a story has, as
// the engine asks for them.
const (
	StoryNotices  = 110
	StoryCommands = 100
)
