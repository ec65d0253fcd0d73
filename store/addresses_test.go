package store_test

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/proof/pg"
	"drawbridge/store"
)

// TestAddressesThatLeadNowhere: whatever a server or the way to it refuses, the error says what to correct, the same when a
// bridge starts and when drawbridge check asks, and never the password.
func TestAddressesThatLeadNowhere(t *testing.T) {
	t.Parallel()
	good, err := url.Parse(pg.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	other := otherProgram(t)
	with := func(change func(*url.URL)) string {
		u := *good
		change(&u)
		return u.String()
	}
	for name, tt := range map[string]struct{ address, want string }{
		"no such database": {with(func(u *url.URL) { u.Path = "/nowhere" }), `the server has no database "nowhere"; make it with createdb, or correct the name in the address`},
		"no such user":     {with(func(u *url.URL) { u.User = url.UserPassword("stranger", "geheim") }), `does not let user "stranger" in; correct the user in the address`},
		"a closed port":    {with(func(u *url.URL) { u.Host = "127.0.0.1:1" }), "no program listens at port 1 there; start PostgreSQL, or correct host and port in the address"},
		"no such host":     {with(func(u *url.URL) { u.Host = "no-such-host.invalid:5432" }), "correct the host in the address"},
		"no TLS there":     {with(func(u *url.URL) { u.RawQuery = "sslmode=require" }), "takes no encrypted connections; set up TLS at the server, or write sslmode=prefer"},
		"a wrong setting":  {with(func(u *url.URL) { u.RawQuery += "&no_such_setting=1" }), "refuses a setting in the address; correct the settings after the ?"},
		"another program":  {with(func(u *url.URL) { u.Host = other }), "the database at postgres://" + other},
	} {
		opened, err := store.Open(t.Context(), tt.address)
		if opened != nil {
			t.Fatalf("%s: it opened", name)
		}
		for from, err := range map[string]error{"start": err, "check": store.CheckSchema(t.Context(), tt.address)} {
			if bridge.KindOf(err) != bridge.Unavailable || !strings.Contains(bridge.SafeMessage(err), tt.want) || strings.Contains(fmt.Sprint(err), "geheim") {
				t.Errorf("%s, %s: %v, want %q", name, from, err, tt.want)
			}
		}
	}
}

// otherProgram listens and speaks something else.
func otherProgram(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a test's
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

// TestNetworkFileSystem: the error says why, and both ways out. The machine of a test has no such file system to mount.
func TestNetworkFileSystem(t *testing.T) {
	t.Parallel()
	err := store.OnNetwork("/net/x.db", "NFS")
	if bridge.KindOf(err) != bridge.Invalid || !strings.Contains(err.Error(), "is on a network file system (NFS)") || !strings.Contains(err.Error(), "choose a path on a disk of this machine, or use PostgreSQL") {
		t.Error(err)
	}
}
