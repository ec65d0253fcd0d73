package settings

import (
	"fmt"
	"path/filepath"
	"strings"

	"drawbridge/internal/trust"
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

// maxSecretFile is how much a ${file:…} may hold, in bytes.
const maxSecretFile = 64 << 10

// expand replaces ${NAME}, ${NAME:-default} and ${file:path} in value; $${ stands for ${. What is put in is not expanded
// again. The second result lists what was put in and has to stay out of every output.
func (o outside) expand(value string) (expanded string, secrets []string, err error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(value, "${")
		if !found {
			out.WriteString(value)
			return out.String(), secrets, nil
		}
		if strings.HasSuffix(before, "$") {
			out.WriteString(before + "{")
			value = rest
			continue
		}
		out.WriteString(before)
		reference, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", nil, trust.Because("${ is not closed", "add }, or write $${ for a plain ${")
		}
		text, secret, err := o.resolve(reference)
		if err != nil {
			return "", nil, err
		}
		if secret {
			secrets = append(secrets, text)
		}
		out.WriteString(text)
		value = after
	}
}

// resolve takes every file for a secret, and a variable by its name: HOME in an output must stay readable.
func (o outside) resolve(reference string) (text string, secret bool, err error) {
	if path, isFile := strings.CutPrefix(reference, "file:"); isFile {
		text, err := o.file(path)
		return text, true, err
	}
	name, fallback, hasFallback := strings.Cut(reference, ":-")
	if !validEnvName(name) {
		return "", false, trust.Because(fmt.Sprintf("%+.80q is not a variable name", name), "write ${NAME}, ${NAME:-default} or ${file:path}")
	}
	if value, set := o.env(name); set && value != "" {
		return value, namesSecret(name), nil
	}
	if !hasFallback {
		return "", false, trust.Because(fmt.Sprintf("the environment variable %s is not set or empty", name),
			fmt.Sprintf("set it, or write ${%s:-default}", name))
	}
	return fallback, false, nil
}

// file reads a key or a token, which nobody else may read.
func (o outside) file(path string) (string, error) {
	if path == "" {
		return "", trust.Because("${file:} names no file", "write ${file:path}")
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(o.dir, path)
	}
	data, err := trust.ReadSecret(path, maxSecretFile)
	if err != nil {
		return "", fmt.Errorf("file %s: %w", path, err)
	}
	return strings.TrimRight(string(data), "\r\n"), nil
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
