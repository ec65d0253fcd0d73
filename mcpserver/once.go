package mcpserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	"drawbridge/bridge"
	"drawbridge/mail"
	"drawbridge/memory"
)

// keyArgument is the usual name of such an argument (the IETF's draft
// Idempotency-Key, Stripe, Square).
const keyArgument = "idempotency_key"

// keyed lets a tool take keyArgument; its call finds what it means in caller.once.
func (t tool) keyed() tool {
	p := text(keyArgument, "Optional: a key of your own for this one request, such as a UUID. If the call is cut off, make it again with the same key. The bridge does it only once and gives the first answer again.").maybe()
	t.schema.Properties[p.name] = &p.schema
	t.schema.PropertyOrder = append(t.schema.PropertyOrder, p.name)
	return t
}

// keeps lets a tool be called twice under the key that the bridge gives to agents in this process: its call finds what that means
// in caller.once. Agents elsewhere read nothing of it, because for them the same call again is another one.
func (t tool) keeps() tool {
	t.kept = true
	return t
}

// isKeyed reports whether a tool takes keyArgument.
func (t tool) isKeyed() bool { return t.schema.Properties[keyArgument] != nil }

// once takes the key out of arguments that are valid. own is the key that the bridge gives, or "". What is left out and has a
// default is the same request as what names it.
func (t tool) once(plain map[string]any, own string) (o bridge.Once, err error) {
	key, given := plain[keyArgument].(string)
	if !given && t.kept {
		key, given = own, own != ""
	}
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

// mind is the memory for one call.
func (d *Door) mind(c *caller) *memory.Service { return d.o.Memory.Once(c.once) }

// do runs fn in one change, unless the call did it before under its key. It returns what fn returned then or now. fn returns "" if
// it changed nothing that has to be remembered.
func (d *Door) do(ctx context.Context, c *caller, fn func(bridge.Change) (result string, err error)) (result string, err error) {
	err = d.o.Engine.Change(ctx, func(tx bridge.Change) error {
		if result, err = c.once.Earlier(tx.Scene, c.agent.ID); err != nil || result != "" {
			return err
		}
		if result, err = fn(tx); err != nil || result == "" {
			return err
		}
		return c.once.Keep(tx.Scene, c.agent.ID, result, tx.Now())
	})
	return result, err
}
