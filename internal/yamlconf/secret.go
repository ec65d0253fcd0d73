package yamlconf

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
)

const redacted = "[redacted]"

// Secret is a value that is never shown: however it is printed, logged or encoded,
// it says [redacted]. In a file it must be one reference, ${VAR} or ${file:path}.
// The zero Secret is empty.
type Secret struct {
	// A pointer, because fmt prints unexported fields of outer structs without
	// asking their methods; of a pointer it prints the address.
	value *string
}

// NewSecret wraps a value that did not come from a configuration file.
func NewSecret(value string) Secret { return Secret{value: &value} }

// Reveal returns the value. Pass it on to where it is used; do not keep it.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// Len is the length in bytes, for checks that must not see the value.
func (s Secret) Len() int { return len(s.Reveal()) }

// Equal compares two secrets in a time that depends on their lengths only.
func (s Secret) Equal(other Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(other.Reveal())) == 1
}

// String implements fmt.Stringer without the value.
func (s Secret) String() string { return redacted }

// GoString implements fmt.GoStringer without the value.
func (s Secret) GoString() string { return redacted }

// Format implements fmt.Formatter, so that no verb at all prints the value: %d
// asks neither String nor GoString.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalJSON implements json.Marshaler without the value.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// MarshalText implements encoding.TextMarshaler without the value.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalYAML implements yaml.Marshaler without the value.
func (s Secret) MarshalYAML() (any, error) { return redacted, nil }

// LogValue implements slog.LogValuer without the value.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }
