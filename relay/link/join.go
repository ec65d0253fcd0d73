package link

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"drawbridge/internal/strictjson"
	"drawbridge/relay/wire"
)

// The schemes of a join command. What follows is the bridge's host, port and path, and then the token.
const (
	scheme      = "drawbridge://"
	plainScheme = "drawbridge+http://"
)

// Invitation is what `drawbridge relay token` gave out.
type Invitation struct {
	Bridge string
	Token  wire.Token
	// CA are the certificates that vouch for the bridge's address, as [ReadCA] returns them; those that the system knows when empty.
	CA string
}

// ReadInvitation reads drawbridge://host/dbj_…, or drawbridge+http:// for a bridge on this machine.
func ReadInvitation(text string) (Invitation, error) {
	rest, web := "", ""
	switch {
	case strings.HasPrefix(text, scheme):
		rest, web = text[len(scheme):], "https://"
	case strings.HasPrefix(text, plainScheme):
		rest, web = text[len(plainScheme):], "http://"
	default:
		return Invitation{}, errors.New("a join command begins with drawbridge://; copy it whole from `drawbridge relay token <name>`")
	}
	at := strings.LastIndexByte(rest, '/')
	if at < 0 {
		return Invitation{}, errors.New("the join command is cut off; copy it whole from `drawbridge relay token <name>`")
	}
	return NewInvitation(web+rest[:at], rest[at+1:])
}

// NewInvitation is ReadInvitation of an address and a token that came apart.
func NewInvitation(bridge, token string) (Invitation, error) {
	t, err := wire.ReadToken(token)
	if err != nil {
		return Invitation{}, err
	}
	bridge, err = CheckURL(bridge)
	return Invitation{Bridge: bridge, Token: t}, err
}

// ErrJoined is returned by Join when there is an identity already.
var ErrJoined = errors.New("this relay has joined a bridge already")

// Join enrolls this machine: it makes a key, proves the token without sending it, checks that the answer is the bridge's of
// the invitation, and writes the identity to path, which must not exist. A second try after an answer was lost
// works, because the key is on disk before it is sent.
func Join(ctx context.Context, path string, in Invitation, now func() time.Time) (Identity, error) {
	if _, err := os.Lstat(path); err == nil {
		return Identity{}, fmt.Errorf("%w: %s exists; move it away to join another bridge", ErrJoined, path)
	}
	// Before anything is read there: who can write that folder could have put a key there that they know.
	if err := reserved(filepath.Dir(path)); err != nil {
		return Identity{}, fmt.Errorf("join: %w", err)
	}
	key, err := pendingKey(path + ".joining")
	if err != nil {
		return Identity{}, err
	}
	body, err := wire.NewJoin(in.Token, key)
	if err != nil {
		return Identity{}, err
	}
	answer, err := post[wire.Joined](ctx, in.CA, in.Bridge+wire.JoinPath, body)
	if err != nil {
		return Identity{}, fmt.Errorf("join: %w", err)
	}
	if !answer.Proved(in.Token, body) {
		return Identity{}, errors.New("join: the server that answered is not the bridge that issued the token, so nothing was saved; check the address")
	}
	i := Identity{Bridge: in.Bridge, CA: in.CA, Relay: answer.Relay, Key: key, Pins: []Pin{{Key: in.Token.Bridge, Since: now()}}}
	if err := save(path, i); err != nil {
		return Identity{}, err
	}
	return i, os.Remove(path + ".joining")
}

// pendingKey returns the key of an earlier try, or makes one and keeps it.
func pendingKey(path string) (ed25519.PrivateKey, error) {
	key, err := keptKey(path)
	if key != nil || err != nil {
		return key, err
	}
	_, key, err = ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("keep key: %w", err)
	}
	_, err = io.WriteString(file, seedText(key)+"\n")
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return nil, fmt.Errorf("keep key: %w", err)
	}
	return key, nil
}

// keptKey returns the key in the file, or nil when there is none; what a crash left half written is removed.
func keptKey(path string) (ed25519.PrivateKey, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read pending key: %w", err)
	}
	defer file.Close()
	if err := private(path, file); err != nil {
		return nil, fmt.Errorf("read pending key: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return nil, fmt.Errorf("read pending key: %w", err)
	}
	if key, err := readSeed(strings.TrimSpace(string(data))); err == nil {
		return key, nil
	}
	if err := os.Remove(path); err != nil {
		return nil, fmt.Errorf("remove damaged pending key: %w", err)
	}
	return nil, nil
}

// Rotate gives the relay a new key: the bridge takes it first, and both count until the new one is used. Interrupted at any
// point, it goes on where it was when it is called again. A relay that runs uses the new key from its next connection on.
func Rotate(ctx context.Context, path string, now func() time.Time) (Identity, error) {
	i, err := change(path, func(i Identity) (Identity, error) {
		if i.Next != nil {
			return i, nil // an earlier try; the bridge may know this key already
		}
		_, next, err := ed25519.GenerateKey(rand.Reader)
		i.Next = next
		return i, err
	})
	if err != nil {
		return Identity{}, err
	}
	trusted := i.Trusted(now())
	body := wire.Rekey{Relay: i.Relay, Key: keyID(i.Key), Public: publicText(i.Next), Created: now().UnixMilli(), Pins: idsOf(trusted)}.Prove(i.Key, i.Next)
	answer, err := post[wire.Rekeyed](ctx, i.CA, i.Bridge+wire.RekeyPath, body)
	if err != nil {
		return Identity{}, fmt.Errorf("rotate: %w", err)
	}
	if !answer.Proved(byID(trusted), body) {
		return Identity{}, errors.New("rotate: the server that answered is not the bridge that this relay trusts; the old key stays in use")
	}
	return change(path, func(fresh Identity) (Identity, error) {
		if fresh.Next != nil && fresh.Next.Equal(i.Next) {
			fresh.Key, fresh.Next = fresh.Next, nil
		}
		return fresh, nil
	})
}

func keyID(key ed25519.PrivateKey) string { return wire.KeyID(key.Public().(ed25519.PublicKey)) }

func publicText(key ed25519.PrivateKey) string { return wire.KeyText(key.Public().(ed25519.PublicKey)) }

// KeyIDs are the ids of the relay's key and of the bridge's keys that it trusts, for people to compare.
func (i Identity) KeyIDs(now time.Time) (own string, bridge []string) {
	return keyID(i.Key), idsOf(i.Trusted(now))
}

const (
	postTimeout = 30 * time.Second
	maxAnswer   = 64 << 10
)

// post is the one kind of plain request that a relay makes.
func post[Out any](ctx context.Context, ca, address string, body any) (out Out, err error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	data, err := json.Marshal(body)
	if err != nil {
		return out, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(data))
	if err != nil {
		return out, err
	}
	req.Header.Set("Content-Type", "application/json")
	client, err := newClient(ca)
	if err != nil {
		return out, err
	}
	response, err := client.Do(req)
	if err != nil {
		return out, unreached(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return out, fmt.Errorf("read the bridge's answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return out, refused(response.StatusCode, answer)
	}
	if err := strictjson.Decode(answer, &out); err != nil {
		return out, errors.New("the server at this address is not a bridge; correct the address")
	}
	return out, nil
}

// refused reads the bridge's word, which is untrusted text until its signature was checked.
func refused(status int, answer []byte) error {
	var body struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := strictjson.Decode(answer, &body); err != nil || body.Error.Message == "" {
		return fmt.Errorf("the server at this address is not a bridge (HTTP %d); correct the address", status)
	}
	return fmt.Errorf("the bridge says: %+.300q", body.Error.Message)
}
