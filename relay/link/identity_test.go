package link_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drawbridge/relay/link"
	"drawbridge/relay/wire"
)

func identity() link.Identity {
	return link.Identity{Bridge: "https://bridge.example/base", Relay: "laptop", Key: key("relay"), Next: key("next"),
		Pins: []link.Pin{{Key: public(key("old")), Since: time.Unix(1000, 0).UTC()}, {Key: public(key("bridge")), Since: time.Unix(2000, 0).UTC()}}}
}

func TestIdentityFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), link.DefaultFile)
	if _, err := link.Load(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	want := identity()
	if err := link.Save(path, want); err != nil {
		t.Fatal(err)
	}
	got, err := link.Load(path)
	if err != nil || got.Bridge != want.Bridge || got.Relay != want.Relay || !got.Key.Equal(want.Key) || !got.Next.Equal(want.Next) || len(got.Pins) != 2 {
		t.Fatalf("%v, %v", got, err)
	}
	if stat, err := os.Stat(path); err != nil || stat.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", stat.Mode(), err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if printed := fmt.Sprintf("%v %+v %#v", got, got, got); strings.Contains(string(data), printed) || strings.Contains(printed, "[") {
		t.Errorf("an identity prints as %s", printed)
	}
	for name, spoil := range map[string]func(string) error{
		"can be read by others (mode 0640); run: chmod go-r":    func(path string) error { return os.Chmod(path, 0o640) },
		"can be written by others (mode 0620); run: chmod go-w": func(path string) error { return os.Chmod(path, 0o620) },
		"can be read by others (mode 0604)":                     func(path string) error { return os.Chmod(path, 0o604) },
		"chmod go-w": func(path string) error {
			return errors.Join(os.Chmod(path, 0o600), os.Chmod(filepath.Dir(path), 0o770))
		},
		"damaged": func(path string) error {
			return errors.Join(os.Chmod(filepath.Dir(path), 0o700), os.WriteFile(path, data[:len(data)/2], 0o600))
		},
		"too many levels of symbolic links": func(path string) error { // somebody swapped the file for a link
			return errors.Join(os.Remove(path), os.Symlink("/etc/passwd", path))
		},
		"not a plain file": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	} {
		own := filepath.Join(t.TempDir(), link.DefaultFile)
		if err := errors.Join(link.Save(own, want), spoil(own)); err != nil {
			t.Fatal(err)
		}
		if _, err := link.Load(own); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Who can write the folder in which a relay joins could put a key there that they know, and be that relay.
func TestJoinTakesNoKeyOfOthers(t *testing.T) {
	t.Parallel()
	in, err := link.NewInvitation("http://127.0.0.1:1", wire.Token{ID: "id", Secret: strings.Repeat("s", 43), Bridge: public(key("bridge"))}.String())
	if err != nil {
		t.Fatal(err)
	}
	above := t.TempDir()
	path := filepath.Join(above, "relay", link.DefaultFile)
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	for dir, mode := range map[string]os.FileMode{above: 0o777, filepath.Dir(path): 0o770} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := link.Join(t.Context(), path, in, time.Now); err == nil || !strings.Contains(err.Error(), "chmod go-w "+dir) {
			t.Errorf("%s with mode %o: %v", dir, mode, err)
		}
		if found, _ := filepath.Glob(path + "*"); len(found) > 0 {
			t.Errorf("it left %v", found)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	pending := path + ".joining"
	if err := errors.Join(os.WriteFile(pending, []byte("known to others"), 0o600), os.Chmod(pending, 0o644)); err != nil {
		t.Fatal(err)
	}
	if _, err := link.Join(t.Context(), path, in, time.Now); err == nil || !strings.Contains(err.Error(), "can be read by others (mode 0644); run: chmod go-r") {
		t.Errorf("a key that others can read: %v", err)
	}
	// Half a key of our own, as a crash leaves it, is replaced.
	if err := os.Chmod(pending, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := link.Join(t.Context(), path, in, time.Now); err == nil || !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("half a key: %v", err)
	}
	if text, err := os.ReadFile(pending); err != nil || strings.Contains(string(text), "known") {
		t.Errorf("%s, %v", text, err)
	}
}

func TestTrusted(t *testing.T) {
	t.Parallel()
	i := identity()
	for when, want := range map[time.Time]int{
		time.Unix(2000, 0): 2, time.Unix(2000, 0).Add(link.Overlap - time.Second): 2, time.Unix(2000, 0).Add(link.Overlap): 1,
	} {
		if got := i.Trusted(when); len(got) != want || !got[len(got)-1].Equal(public(key("bridge"))) {
			t.Errorf("at %s %d keys count, want %d", when, len(got), want)
		}
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for text, fine := range map[string]bool{
		"https://bridge.example": true, "https://bridge.example:8443/base/": true, "http://127.0.0.1:7410": true, "http://[::1]:7410": true, "http://localhost:1": true,
		"http://bridge.example": false, "http://10.0.0.1": false, "http://127.0.0.1.evil.example": false, "ws://127.0.0.1": false, "https://u:p@bridge.example": false,
		"https://bridge.example?x": false, "https://bridge.example#x": false, "bridge.example": false, "": false, "https://": false,
	} {
		if got, err := link.CheckURL(text); fine != (err == nil) || strings.HasSuffix(got, "/") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "https://bridge.example/dbj_x", "drawbridge://bridge.example", "drawbridge://bridge.example/dbj_x", "drawbridge+http://bridge.example/" + strings.Repeat("x", 100)} {
		if _, err := link.ReadInvitation(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}
