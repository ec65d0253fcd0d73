package config

import _ "embed" // the schemas

// The JSON schemas of bridge.yaml and allowlist.yaml, for editors. They are made from the structs and from the pages of the reference, and know
// less than ParseBridge and ParseAllowlist do.
var (
	//go:embed schema/bridge.json
	BridgeSchema string
	//go:embed schema/allowlist.json
	AllowlistSchema string
)
