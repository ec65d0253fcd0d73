package keeper

// Job and Word are the frames between a relay and its keeper.
type (
	Job  = job
	Word = word
)

// MaxFrame bounds a frame.
const MaxFrame = maxFrame

// Send and Receive carry frames.
var (
	Send    = send
	Receive = receive
)
