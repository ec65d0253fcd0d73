package permits

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxDepth bounds how deeply arguments nest.
const maxDepth = 32

// parse reads one JSON value strictly. Two keys that a careless reader takes for one are an error, because the agent might act on the other.
func parse(raw []byte) (any, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, errors.New("the agent did not give the exact arguments")
	}
	if !utf8.Valid(raw) || halfCharacter(raw) {
		return nil, errors.New("the arguments hold bytes that are not text")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	value, err := parseValue(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the arguments must be one JSON value")
	}
	return value, nil
}

// halfCharacter reports whether an escape from \uD800 to \uDFFF is not one of a pair. Go and JavaScript read it as different text.
func halfCharacter(raw []byte) bool {
	text := strings.ToLower(string(raw))
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 >= len(text) {
			continue
		}
		if text[i+1] != 'u' || i+6 > len(text) || text[i+2] != 'd' || text[i+3] < '8' {
			i++ // the character behind a backslash is not one
			continue
		}
		if text[i+3] >= 'c' || i+12 > len(text) || text[i+6:i+9] != `\ud` || text[i+9] < 'c' {
			return true
		}
		i += 11
	}
	return false
}

func parseValue(d *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errors.New("the arguments nest too deeply")
	}
	token, err := d.Token()
	if err != nil {
		return nil, errors.New("the arguments must be JSON")
	}
	switch token {
	case json.Delim('{'):
		return parseObject(d, depth)
	case json.Delim('['):
		return parseArray(d, depth)
	}
	return token, nil
}

func parseObject(d *json.Decoder, depth int) (any, error) {
	object, seen := map[string]any{}, map[string]bool{}
	for d.More() {
		token, err := d.Token()
		key, is := token.(string)
		if err != nil || !is {
			return nil, errors.New("the arguments must be JSON")
		}
		folded := fold(key)
		if seen[folded] {
			return nil, fmt.Errorf("the arguments name %+.40q twice", key)
		}
		seen[folded] = true
		if object[key], err = parseValue(d, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return object, err
}

func parseArray(d *json.Decoder, depth int) (any, error) {
	list := []any{}
	for d.More() {
		value, err := parseValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	_, err := d.Token()
	return list, err
}

// fold makes keys equal that some reader takes for the same: without case, "_", "-" and blanks.
func fold(key string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || unicode.IsSpace(r) {
			return -1
		}
		return unicode.ToLower(smallest(r))
	}, key)
}

// smallest is the first of the characters that differ in case only: for the Kelvin sign, K.
func smallest(r rune) rune {
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return least
}

// canonical writes a value in one form: keys in order, without blanks, in ASCII, numbers as they were written.
func canonical(value any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return "" // only what came from JSON is written
	}
	var ascii strings.Builder
	for _, r := range strings.TrimSuffix(b.String(), "\n") {
		switch {
		case r < utf8.RuneSelf && r != 0x7f:
			ascii.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&ascii, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&ascii, `\u%04x`, r)
		}
	}
	return ascii.String()
}

// hashOf names a call. Each part has its length before it, so that no two calls have the same bytes.
func hashOf(s Subject, arguments string) string {
	sum := sha256.New()
	add := func(part string) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		_, _ = sum.Write(size[:])
		_, _ = io.WriteString(sum, part)
	}
	for _, part := range []string{"drawbridge permission 1", s.Agent, s.Session, filepath.Clean(s.Dir), s.Kind, s.Title, arguments} {
		add(part)
	}
	for _, path := range s.Paths {
		add(path)
	}
	return hex.EncodeToString(sum.Sum(nil))
}
