package fault

import "drawbridge/bridge"

// Answers are what the cloud or the relay says when a request surely had no effect.
var Answers = map[Kind]bridge.Error{
	Unreachable503:  {Kind: bridge.Unavailable, Message: "it cannot be reached"},
	RateLimited:     {Kind: bridge.RateLimited, Message: "slow down"},
	Busy:            {Kind: bridge.Busy, Message: "busy"},
	UsageLimited:    {Kind: bridge.UsageLimited, Message: "the plan's limit is reached"},
	Unauthenticated: {Kind: bridge.Unauthenticated, Message: "the key does not count"},
	Rejected:        {Kind: bridge.Invalid, Message: "it does not like this request"},
	ServerError:     {Kind: bridge.Unavailable, Message: "internal error there"},
	Ambiguous:       {Kind: bridge.Conflict, Message: "several runs could be ours"},
}
