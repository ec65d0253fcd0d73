package yamlconf

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"

	"drawbridge/internal/trust"
)

// maxSecretFile is the largest file that ${file:path} reads, in bytes.
const maxSecretFile = 64 << 10

const referenceRemedy = "write ${VAR}, ${VAR:-default} or ${file:path}; $${ is a plain ${"

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Interpolate replaces every ${VAR}, ${VAR:-default} and ${file:path} in text; $${ stands for ${. A variable that is set and empty is an
// empty text. It scans once from left to right and never looks at what it has put in, so that a value cannot name another one. put, when
// not nil, hears of each reference, without its braces, and of what was put in. An error is a *trust.Problem and holds no value.
func (s Source) Interpolate(text string, put func(reference, value string)) (string, error) {
	if s.Plain {
		return text, nil
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		if !found {
			b.WriteString(text)
			return b.String(), nil
		}
		if plain, escaped := strings.CutSuffix(before, "$"); escaped {
			b.WriteString(plain)
			b.WriteString("${")
			text = rest
			continue
		}
		b.WriteString(before)
		reference, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", trust.Because("has a ${ without its }", referenceRemedy)
		}
		value, err := s.lookUp(reference)
		if err != nil {
			return "", err
		}
		if put != nil {
			put(reference, value)
		}
		b.WriteString(value)
		text = after
	}
}

// lookUp reads what stands between ${ and }.
func (s Source) lookUp(reference string) (string, error) {
	if path, ok := strings.CutPrefix(reference, "file:"); ok {
		return s.readFile(path)
	}
	name, def, hasDefault := strings.Cut(reference, ":-")
	if !variableName.MatchString(name) {
		return "", trust.Because("has a reference that is neither a variable nor a file", referenceRemedy)
	}
	value, set := "", false
	if s.Getenv != nil {
		value, set = s.Getenv(name)
	}
	switch {
	case hasDefault && (!set || value == ""):
		return def, nil
	case !set:
		return "", trust.Because(fmt.Sprintf("refers to the environment variable %s, which is not set", name), "set "+name+" or write ${file:path}")
	}
	return value, nil
}

// readFile reads a whole small regular file without the line end at its end. It
// refuses a file that others can read or change, because keys and tokens come
// this way.
func (s Source) readFile(path string) (string, error) {
	if path == "" {
		return "", trust.Because("names no file", referenceRemedy)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.Dir, path)
	}
	data, err := trust.ReadSecret(path, maxSecretFile)
	if err != nil {
		return "", fileTrouble(path, err)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), nil
}

// fileTrouble says why a file is not read, and what to do.
func fileTrouble(path string, err error) error {
	about := "refers to the file " + keyText(path) + ", "
	const remedy = "create the file or correct the path"
	var why *trust.Problem
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return trust.Because(about+"which does not exist", remedy)
	case errors.Is(err, fs.ErrPermission):
		return trust.Because(about+"which may not be read by this user", "change its owner or mode, or run as its owner")
	case errors.As(err, &why) && why.Unwrap() != nil:
		return trust.Because(about+"which cannot be read: "+why.Reason, remedy)
	case errors.As(err, &why) && filepath.IsAbs(why.Reason): // it begins with the file or folder that is at fault
		return trust.Because(about+"but "+oneLine(why.Reason), oneLine(why.Remedy))
	case errors.As(err, &why):
		return trust.Because(about+"which "+why.Reason, why.Remedy)
	}
	return trust.Because(about+"which cannot be read", remedy)
}

// wholeReference reports whether text is exactly one reference without a default,
// which is the only form that keeps a secret out of the file.
func wholeReference(text string) bool {
	inner, ok := strings.CutPrefix(text, "${")
	if !ok {
		return false
	}
	inner, ok = strings.CutSuffix(inner, "}")
	return ok && !strings.ContainsAny(inner, "{}") && (strings.HasPrefix(inner, "file:") || !strings.Contains(inner, ":-"))
}
