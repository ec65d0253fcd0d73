package trust_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drawbridge/internal/trust"
)

// place is a folder with folders and files in it, and the path that is read.
type place struct {
	t   *testing.T
	dir string
}

func (p place) path(name string) string { return filepath.Join(p.dir, name) }

func (p place) folder(name string, mode fs.FileMode) {
	p.t.Helper()
	p.must(os.Mkdir(p.path(name), 0o700))
	p.must(os.Chmod(p.path(name), mode))
}

func (p place) file(name string, mode fs.FileMode) {
	p.t.Helper()
	p.must(os.WriteFile(p.path(name), []byte("text"), 0o600))
	p.must(os.Chmod(p.path(name), mode))
}

func (p place) link(target, name string) {
	p.t.Helper()
	p.must(os.Symlink(target, p.path(name)))
}

func (p place) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

const stranger = 65534

// give makes a name another user's; only root can.
func (p place) give(name string) {
	p.t.Helper()
	p.must(os.Lchown(p.path(name), stranger, stranger))
}

// TestWhoCouldChangeOrReadAFile holds each way in which another user could choose the text or learn it.
// An empty reason means that the file is read.
func TestWhoCouldChangeOrReadAFile(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		make         func(place)
		read, secret string
		onlyRoot     bool
	}{
		"ours alone":              {make: func(p place) { p.file("f", 0o600) }},
		"readable":                {make: func(p place) { p.file("f", 0o644) }, secret: "DIR/f can be read by others (mode 0644); run: chmod go-r DIR/f"},
		"readable for the group":  {make: func(p place) { p.file("f", 0o640) }, secret: "DIR/f can be read by others (mode 0640); run: chmod go-r DIR/f"},
		"readable for the rest":   {make: func(p place) { p.file("f", 0o604) }, secret: "can be read by others"},
		"writable for the group":  {make: func(p place) { p.file("f", 0o620) }, read: "DIR/f can be written by others (mode 0620); run: chmod go-w DIR/f"},
		"writable for all":        {make: func(p place) { p.file("f", 0o602) }, read: "can be written by others"},
		"executable for others":   {make: func(p place) { p.file("f", 0o711) }},
		"missing":                 {make: func(place) {}, read: "does not exist; create it or correct the path"},
		"a folder":                {make: func(p place) { p.folder("f", 0o700) }, read: "is not a regular file"},
		"a pipe":                  {make: func(p place) { p.must(syscall.Mkfifo(p.path("f"), 0o600)) }, read: "is not a regular file"},
		"too large":               {make: func(p place) { p.must(os.WriteFile(p.path("f"), make([]byte, 101), 0o600)) }, read: "is larger than 100 bytes"},
		"a link":                  {make: func(p place) { p.file("real", 0o600); p.link("real", "f") }},
		"a link to a lax file":    {make: func(p place) { p.file("real", 0o666); p.link("real", "f") }, read: "DIR/real can be written by others"},
		"a link to a shown file":  {make: func(p place) { p.file("real", 0o644); p.link("real", "f") }, secret: "DIR/real can be read by others"},
		"a link in a circle":      {make: func(p place) { p.link("g", "f"); p.link("f", "g") }, read: "leads through too many links"},
		"a link to nothing":       {make: func(p place) { p.link("gone", "f") }, read: "does not exist"},
		"the folder is lax":       {make: func(p place) { p.file("f", 0o600); p.must(os.Chmod(p.dir, 0o770)) }, read: "DIR can be written by others (mode 0770); run: chmod go-w DIR"},
		"a sticky folder of ours": {make: func(p place) { p.file("f", 0o600); p.must(os.Chmod(p.dir, 0o777|fs.ModeSticky)) }, read: stickyIsRoots()},
		"the link's target's folder is lax": {make: func(p place) { p.folder("lax", 0o777); p.file("lax/real", 0o600); p.link("lax/real", "f") },
			read: "DIR/lax can be written by others"},
		"a link in the middle of a chain is in a lax folder": {make: func(p place) {
			p.folder("lax", 0o777)
			p.file("real", 0o600)
			p.link("../real", "lax/middle")
			p.link("lax/middle", "f")
		}, read: "DIR/lax can be written by others"},
		"a folder on the way is a link through a lax folder": {make: func(p place) {
			p.folder("lax", 0o777)
			p.folder("good", 0o700)
			p.file("good/real", 0o600)
			p.link("../good", "lax/step")
			p.link("lax/step", "way")
			p.link("way/real", "f")
		}, read: "DIR/lax can be written by others"},
		"a link upwards": {make: func(p place) { p.folder("sub", 0o700); p.file("real", 0o600); p.link("sub/../real", "f") }},
		"another user's file": {onlyRoot: true, make: func(p place) { p.file("f", 0o600); p.give("f") },
			read: fmt.Sprintf("DIR/f belongs to another user, who could change what runs here; run: chown %d DIR/f", os.Geteuid())},
		"another user's folder": {onlyRoot: true, make: func(p place) {
			p.folder("his", 0o755)
			p.file("his/real", 0o600)
			p.link("his/real", "f")
			p.give("his")
		}, read: "DIR/his belongs to another user"},
		"another user's link": {onlyRoot: true, make: func(p place) { p.file("real", 0o600); p.link("real", "f"); p.give("f") }, read: "DIR/f belongs to another user"},
	}
	for name, tt := range tests {
		if tt.onlyRoot && os.Geteuid() != 0 {
			t.Logf("not tried, because only root can give a file away: %s", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := place{t: t, dir: t.TempDir()}
			p.must(os.Chmod(p.dir, 0o700))
			tt.make(p)
			_, err := trust.Read(p.path("f"), 100)
			p.judged("read", err, tt.read)
			want := tt.read
			if want == "" {
				want = tt.secret
			}
			_, err = trust.ReadSecret(p.path("f"), 100)
			p.judged("read as a secret", err, want)
		})
	}
}

// stickyIsRoots: a sticky folder is trusted as /tmp is when it is root's.
func stickyIsRoots() string {
	if os.Geteuid() == 0 {
		return ""
	}
	return "DIR can be written by others"
}

func (p place) judged(what string, err error, want string) {
	p.t.Helper()
	if want == "" {
		if err != nil {
			p.t.Errorf("%s: %v", what, err)
		}
		return
	}
	var why *trust.Problem
	if !errors.As(err, &why) || !strings.Contains(strings.ReplaceAll(err.Error(), p.dir, "DIR"), want) {
		p.t.Errorf("%s: %v, want %q", what, err, want)
	}
}
