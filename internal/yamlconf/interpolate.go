package yamlconf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// maxSecretFile is the largest file that ${file:path} reads, in bytes.
const maxSecretFile = 64 << 10

const referenceRemedy = "write ${VAR}, ${VAR:-default} or ${file:path}; $${ is a plain ${"

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// errReference is why a reference cannot be read; its text holds no value.
type errReference struct{ reason, remedy string }

func (e errReference) Error() string { return e.reason }

// interpolate replaces every reference in text. It scans once from left to right
// and never looks at what it has put in, so that a value cannot name another one.
func (s Source) interpolate(text string) (string, error) {
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
			return "", errReference{"has a ${ without its }", referenceRemedy}
		}
		value, err := s.lookUp(reference)
		if err != nil {
			return "", err
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
		return "", errReference{"has a reference that is neither a variable nor a file", referenceRemedy}
	}
	value, set := "", false
	if s.Getenv != nil {
		value, set = s.Getenv(name)
	}
	switch {
	case hasDefault && value == "":
		return def, nil
	case !set:
		return "", errReference{fmt.Sprintf("refers to the environment variable %s, which is not set", name), "set " + name + " or write ${file:path}"}
	}
	return value, nil
}

// readFile reads a whole small regular file without the line end at its end.
func (s Source) readFile(path string) (string, error) {
	if path == "" {
		return "", errReference{"names no file", referenceRemedy}
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.Dir, path)
	}
	problem := func(reason string) error {
		return errReference{fmt.Sprintf("refers to the file %s, which %s", keyText(path), reason), "create the file or correct the path"}
	}
	// A pipe or a terminal would block for ever, so look before opening.
	info, err := os.Stat(path)
	if err != nil {
		return "", problem(fileReason(err))
	}
	if !info.Mode().IsRegular() {
		return "", problem("is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return "", problem(fileReason(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err != nil {
		return "", problem(fileReason(err))
	}
	if len(data) > maxSecretFile {
		return "", problem("is larger than 64 KiB")
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), nil
}

func fileReason(err error) string {
	var pathErr *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "does not exist"
	case errors.Is(err, fs.ErrPermission):
		return "may not be read by this user"
	case errors.As(err, &pathErr):
		return "cannot be read: " + pathErr.Err.Error()
	}
	return "cannot be read"
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
