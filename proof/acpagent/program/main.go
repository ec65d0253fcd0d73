// Command program is the scripted agent of package acpagent, for proofs that start it by its path. No release holds it. Rule of thumb: all
// that it does is in that package.
package main

import (
	"os"

	"drawbridge/proof/acpagent"
)

func main() { os.Exit(acpagent.Main()) }
