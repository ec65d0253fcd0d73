package settings

import _ "embed" // the schema

// Schema is the JSON schema of relay.yaml, for editors. It is made from the page of the reference, and knows less than Load does.
//
//go:embed schema/relay.json
var Schema string
