package mcpserver

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	"drawbridge/bridge"
	"drawbridge/mail"
)

// keyArgument is the usual name of such an argument (the IETF's draft
// Idempotency-Key, Stripe, Square).
const keyArgument = "idempotency_key"

// keyed lets a tool take keyArgument; its call finds what it means in caller.once.
func (t tool) keyed() tool {
	p := text(keyArgument, "Optional: your own word for this one request, such as a UUID. If you are cut off, make the same call with the same key: it is not done twice and gives the first answer again.").maybe()
	t.schema.Properties[p.name] = &p.schema
	t.schema.PropertyOrder = append(t.schema.PropertyOrder, p.name)
	return t
}

// isKeyed reports whether a tool takes keyArgument.
func (t tool) isKeyed() bool { return t.schema.Properties[keyArgument] != nil }

// once takes the key out of arguments that are valid. What is left out and has a
// default is the same request as what names it.
func (t tool) once(plain map[string]any) (o bridge.Once, err error) {
	key, given := plain[keyArgument].(string)
	if !given {
		return o, nil
	}
	if err := checkLine(keyArgument, key); err != nil {
		return o, err
	}
	delete(plain, keyArgument)
	whole := maps.Clone(plain)
	if err := t.resolved.ApplyDefaults(&whole); err != nil {
		return o, fmt.Errorf("defaults of %s: %w", t.name, err)
	}
	canonical, err := json.Marshal(whole) // with its names in order
	sum := sha256.Sum256(append([]byte(t.name+"\n"), canonical...))
	return bridge.Once{Key: key, Digest: hex.EncodeToString(sum[:])}, err
}

// post is the post office for one call.
func (d *Door) post(c *caller) *mail.Service { return d.o.Mail.Once(c.once) }
