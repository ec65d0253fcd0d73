package openai

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"drawbridge/openai/upstream"
)

// asType is errors.As with the target first to infer.
func asType[T error](err error, target *T) bool { return errors.As(err, target) }

// histories returns, for each message, the digest of the conversation up to and with it. Texts of role system are left out: clients write
// the date and the like into them. So are thoughts, ids of calls, and blanks around a text, which clients change on the way back.
func histories(token string, messages []upstream.Message) []string {
	out := make([]string, len(messages))
	last := sha256.Sum256([]byte("drawbridge history|" + token))
	for i, m := range messages {
		last = next(last, m)
		out[i] = hex.EncodeToString(last[:])
	}
	return out
}

// extend returns the digest of a history with one more message; before is "" for an empty history.
func extend(token, before string, m upstream.Message) string {
	last := sha256.Sum256([]byte("drawbridge history|" + token))
	if raw, err := hex.DecodeString(before); err == nil && len(raw) == len(last) {
		last = [32]byte(raw)
	}
	last = next(last, m)
	return hex.EncodeToString(last[:])
}

func next(before [32]byte, m upstream.Message) [32]byte {
	text := strings.TrimSpace(m.Text)
	if m.Role == "system" || m.Role == "assistant" && text == "" && len(m.Calls) == 0 {
		return before
	}
	h := sha256.New()
	h.Write(before[:])
	write(h, m.Role, text)
	for _, c := range m.Calls {
		write(h, "call", c.Name, canonical(c.Arguments))
	}
	for _, image := range m.Images {
		write(h, "image", image.URL, image.MIME, string(image.Data))
	}
	return [32]byte(h.Sum(nil))
}

// write adds parts so that no two lists of parts look alike.
func write(h hash.Hash, parts ...string) {
	for _, p := range parts {
		fmt.Fprintf(h, "%d:", len(p))
		_, _ = io.WriteString(h, p)
	}
}

// canonical is JSON in one spelling, or what is not JSON as it is.
func canonical(raw json.RawMessage) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return string(raw)
	}
	return string(mustJSON(v))
}

// sumOf is the SHA-256 of a body, in hex.
func sumOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
