package settings

import (
	"strings"

	"drawbridge/internal/yamlconf"
)

// LookupEnv finds a variable of the relay's own environment, as os.LookupEnv does.
type LookupEnv func(name string) (value string, set bool)

// outside is where ${…} in a value may come from: the environment, and files beside relay.yaml.
type outside struct {
	env LookupEnv
	dir string
	// config is the absolute path of relay.yaml.
	config string
}

// expand puts in what the references of value stand for. The second result lists what has to stay out of every output: every file, and
// a variable by its name. HOME in an output must stay readable.
func (o outside) expand(value string) (expanded string, secrets []string, err error) {
	expanded, err = yamlconf.Source{Dir: o.dir, Getenv: o.env}.Interpolate(value, func(reference, text string) {
		name, _, fallback := strings.Cut(reference, ":-")
		set := true
		if fallback {
			value, found := o.env(name)
			set = found && value != ""
		}
		if strings.HasPrefix(reference, "file:") || set && namesSecret(name) {
			secrets = append(secrets, text)
		}
	})
	return expanded, secrets, err
}

func namesSecret(name string) bool {
	upper := strings.ToUpper(name)
	for _, hint := range []string{"TOKEN", "SECRET", "PASS", "KEY", "CREDENTIAL"} {
		if strings.Contains(upper, hint) {
			return true
		}
	}
	return false
}

func validEnvName(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := c == '_' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}
