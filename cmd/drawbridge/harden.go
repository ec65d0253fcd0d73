package main

import (
	"os"
	"strings"
)

// forget removes every variable that holds one of the secrets from the
// environment, so that no child gets it.
func forget(secrets []string) {
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		for _, secret := range secrets {
			if strings.Contains(value, secret) {
				_ = os.Unsetenv(name) // it fails for a name that cannot exist
			}
		}
	}
}
