package link

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"drawbridge/internal/strictjson"
	"drawbridge/internal/trust"
	"drawbridge/relay/wire"
)

// DefaultFile is the name of the identity beside relay.yaml.
const DefaultFile = "relay.identity"

// Overlap is how long a relay goes on trusting a key of the bridge after it learned the next one.
const Overlap = 24 * time.Hour

// Identity is who a relay is and whom it trusts: one file that only its owner may read, written whole or not at all.
type Identity struct {
	// Bridge is the bridge's address without a slash at the end: https://…, or http:// on this machine.
	Bridge string
	// CA are the certificates (PEM) that vouch for that address, and no others do; when empty, those that the system knows.
	CA string
	// Relay is the name that the bridge knows.
	Relay string
	// Key is the relay's own; Next the one that replaces it once the bridge has taken it, nil most of the time.
	Key, Next ed25519.PrivateKey
	// Pins are the bridge's keys that were ever trusted, oldest first; see Trusted.
	Pins []Pin
}

// Pin is a key of the bridge, and since when it is known.
type Pin struct {
	Key   ed25519.PublicKey
	Since time.Time
}

// String names the relay and its bridge and shows no key.
func (i Identity) String() string { return i.Relay + " at " + i.Bridge }

// GoString is String, so that %#v shows no key either.
func (i Identity) GoString() string { return i.String() }

// Trusted returns the keys that count at a time: the newest, and those before it for [Overlap] after they were followed.
func (i Identity) Trusted(now time.Time) []ed25519.PublicKey {
	var out []ed25519.PublicKey
	for n, pin := range i.Pins {
		if n == len(i.Pins)-1 || now.Before(i.Pins[n+1].Since.Add(Overlap)) {
			out = append(out, pin.Key)
		}
	}
	return out
}

func byID(keys []ed25519.PublicKey) map[string]ed25519.PublicKey {
	out := make(map[string]ed25519.PublicKey, len(keys))
	for _, k := range keys {
		out[wire.KeyID(k)] = k
	}
	return out
}

func idsOf(keys []ed25519.PublicKey) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = wire.KeyID(k)
	}
	return out
}

// pin adds a key as the newest, and drops those that have not counted for long.
func (i Identity) pin(key ed25519.PublicKey, now time.Time) Identity {
	kept := i.Trusted(now)
	var pins []Pin
	for _, p := range i.Pins {
		for _, k := range kept {
			if p.Key.Equal(k) && !p.Key.Equal(key) {
				pins = append(pins, p)
			}
		}
	}
	i.Pins = append(pins, Pin{Key: key, Since: now})
	if over := len(i.Pins) - maxPins; over > 0 {
		i.Pins = i.Pins[over:]
	}
	return i
}

// maxPins bounds how many keys are kept, as the wire does.
const maxPins = 8

// stored is the file.
type stored struct {
	Note   string      `json:"note"`
	Bridge string      `json:"bridge"`
	CA     string      `json:"ca,omitempty"`
	Relay  string      `json:"relay"`
	Key    string      `json:"key"`
	Next   string      `json:"next,omitempty"`
	Pins   []storedPin `json:"pins"`
}

type storedPin struct {
	Public string    `json:"public"`
	Since  time.Time `json:"since"`
}

const note = "Secret: anyone who has this file can act as this relay. Written by drawbridge-relay; do not edit."

func (i Identity) encode() ([]byte, error) {
	s := stored{Note: note, Bridge: i.Bridge, CA: i.CA, Relay: i.Relay, Key: seedText(i.Key), Next: seedText(i.Next)}
	for _, p := range i.Pins {
		s.Pins = append(s.Pins, storedPin{Public: wire.KeyText(p.Key), Since: p.Since.UTC()})
	}
	return json.MarshalIndent(s, "", "  ")
}

func seedText(key ed25519.PrivateKey) string {
	if key == nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(key.Seed())
}

func readSeed(text string) (ed25519.PrivateKey, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != ed25519.SeedSize {
		return nil, errors.New("a key in it is damaged")
	}
	return ed25519.NewKeyFromSeed(raw), nil
}

func decode(data []byte) (Identity, error) {
	var s stored
	if err := strictjson.DecodeExact(data, &s); err != nil {
		return Identity{}, err
	}
	bridge, err := CheckURL(s.Bridge)
	if err != nil {
		return Identity{}, err
	}
	if _, err := roots(s.CA); err != nil {
		return Identity{}, err
	}
	i := Identity{Bridge: bridge, CA: s.CA, Relay: s.Relay}
	if i.Key, err = readSeed(s.Key); err == nil && s.Next != "" {
		i.Next, err = readSeed(s.Next)
	}
	if err != nil {
		return Identity{}, err
	}
	for _, p := range s.Pins {
		key, err := wire.ReadKey(p.Public)
		if err != nil {
			return Identity{}, err
		}
		i.Pins = append(i.Pins, Pin{Key: key, Since: p.Since})
	}
	if !wire.ValidAction(i.Relay) || len(i.Pins) == 0 || len(i.Pins) > maxPins {
		return Identity{}, errors.New("it names no relay, or no key of a bridge")
	}
	return i, nil
}

// maxFile bounds the identity file in bytes.
const maxFile = 64 << 10

// Load reads the identity at path. It must be a plain file that belongs to us (or root) and that nobody else can read, in
// folders that nobody else can write. A file that is not there is fs.ErrNotExist.
func Load(path string) (Identity, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return Identity{}, fmt.Errorf("open identity: %w", err)
	}
	defer file.Close()
	if err := private(path, file); err != nil {
		return Identity{}, err
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return Identity{}, fmt.Errorf("read identity %s: %w", path, err)
	}
	i, err := decode(data)
	if err != nil {
		return Identity{}, fmt.Errorf("identity %s is damaged: %w; restore it, or revoke the relay at the bridge and join again", path, err)
	}
	return i, nil
}

// private refuses a file that others could read or replace, by the rule for the keys and tokens of a bridge.
func private(path string, file *os.File) error {
	stat, err := file.Stat()
	if err != nil {
		return fmt.Errorf("look at identity %s: %w", path, err)
	}
	if !stat.Mode().IsRegular() {
		return fmt.Errorf("identity %s is not a plain file", path)
	}
	if err := trust.Secret(path, stat); err != nil {
		return fmt.Errorf("identity %w", err)
	}
	return reserved(filepath.Dir(path))
}

// reserved refuses a folder in which others could put a key of theirs in the place of ours.
func reserved(folder string) error {
	real, err := filepath.Abs(folder)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	if err != nil {
		return fmt.Errorf("look at %s: %w", folder, err)
	}
	if err := trust.Folders(real); err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	return nil
}

// save writes the identity as a whole: who reads it finds the old one or the new one, also after a loss of power.
func save(path string, i Identity) (err error) {
	data, err := i.encode()
	if err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	folder := filepath.Dir(path)
	file, err := os.CreateTemp(folder, filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	_, err = file.Write(append(data, '\n'))
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	if err = os.Rename(file.Name(), path); err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	return syncFolder(folder)
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// change rewrites the identity with nobody else in between: the relay that runs and a rotation by hand meet here.
func change(path string, fn func(Identity) (Identity, error)) (i Identity, err error) {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return Identity{}, fmt.Errorf("lock identity: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }() // which also unlocks
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return Identity{}, fmt.Errorf("lock identity: %w", err)
	}
	if i, err = Load(path); err != nil {
		return Identity{}, err
	}
	if i, err = fn(i); err != nil {
		return Identity{}, err
	}
	return i, save(path, i)
}

// CheckURL returns a bridge's address without a slash at the end. Without TLS it must be on this machine: on the way, anybody
// could read outputs and forge results, although not requests.
func CheckURL(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || (u.Scheme != "https" && u.Scheme != "http") {
		return "", errors.New("the bridge's address must be https://host, or http:// for this machine only")
	}
	if ip, err := netip.ParseAddr(u.Hostname()); u.Scheme == "http" && u.Hostname() != "localhost" && (err != nil || !ip.IsLoopback()) {
		return "", errors.New("the bridge's address must begin with https://, because it is on another machine")
	}
	return strings.TrimRight(u.String(), "/"), nil
}
