package engine

import "math/rand/v2"

// What follows is unexported and worth a test of its own.
var (
	Compose  = compose
	EchoKeys = echoKeys
	RemindAt = remindAt
	Backoff  = (&Engine{o: Options{Rand: rand.Float64}}).backoff
	Clip     = clip
	OneLine  = oneLine
	SafeWord = safeWord
)

// MaxEchoes and MaxUntrusted are bounds that the tests reach.
const (
	MaxEchoes    = maxEchoes
	MaxUntrusted = maxUntrusted
)
