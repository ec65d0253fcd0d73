// Package config reads bridge.yaml and allowlist.yaml: strictly, with every problem
// at once, and the allowlist again whenever its file changes. It does not decide
// what agents may do (package policy does) and starts nothing but the watcher that
// its caller waits for. Rule of thumb: a file that is not wholly right is not used
// at all, and no secret is ever printed. Only cmd imports it.
package config
