package engine

// What follows is unexported and worth a test of its own.
var (
	Compose  = compose
	EchoKeys = echoKeys
	RemindAt = remindAt
	Backoff  = backoff
	Clip     = clip
	OneLine  = oneLine
	SafeWord = safeWord
)

// MaxEchoes and MaxUntrusted are bounds that the tests reach.
const (
	MaxEchoes    = maxEchoes
	MaxUntrusted = maxUntrusted
)
