package keeper_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/sandbox"
)

// ends are the two ends of what lies between a relay and its keeper.
func ends(t *testing.T) (ours, theirs *net.UnixConn) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	conns := make([]*net.UnixConn, len(pair))
	for i, fd := range pair {
		file := os.NewFile(uintptr(fd), "end")
		conn, err := net.FileConn(file)
		_ = file.Close()
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = conn.(*net.UnixConn)
	}
	return conns[0], conns[1]
}

// framed is a text as it goes over the wire.
func framed(text string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
}

// arrives sends data in two pieces, with so many descriptors on the first, and receives a frame from it. rest is what the
// receiver left.
func arrives(t *testing.T, data []byte, cut, passed int, frame any) (files []*os.File, rest []byte, err error) {
	t.Helper()
	ours, theirs := ends(t)
	null, openErr := os.Open(os.DevNull)
	if openErr != nil {
		t.Fatal(openErr)
	}
	defer null.Close()
	var rights []byte
	if passed > 0 {
		fds := make([]int, passed)
		for i := range fds {
			fds[i] = int(null.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		// The receiver may have had enough.
		_, _, _ = ours.WriteMsgUnix(data[:cut], rights, nil)
		_, _ = ours.Write(data[cut:])
		_ = ours.Close()
	}()
	files, err = keeper.Receive(theirs, frame)
	if err == nil {
		rest, _ = io.ReadAll(theirs) // a socket that was closed at the other end
	}
	_ = theirs.Close()
	<-written
	return files, rest, err
}

// jobs are frames as relays send them.
func jobs() []keeper.Job {
	return []keeper.Job{
		{End: true},
		{Path: "/bin/echo", Argv: []string{"/bin/echo", "a b", "\"\\\x00\u2028"}, Dir: "/", Env: []string{"A=b"}, Processes: 256, Program: true, Cgroup: true},
		{Path: "/bin/true", Argv: []string{"/bin/true"}, Sandbox: &sandbox.Plan{Read: []string{"/usr"}, Write: []string{"/tmp"}}},
	}
}

// Whatever comes, a frame is received if and only if it is whole, within bounds and JSON, in one reading, and nothing behind it
// is touched; every descriptor that came is handed out to be closed. The other end is the same program, but the actions of
// the same user could write to it with a debugger.
func FuzzReceive(f *testing.F) {
	for _, j := range jobs() {
		text, err := json.Marshal(j)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(framed(string(text)), 4, 2)
		f.Add(append(framed(string(text)), "more"...), 3, 0)
		f.Add(framed(string(text))[:len(text)/2], 4, 4)
	}
	for _, text := range []string{`{"end":{"code":3,"signal":9,"cut":true,"most":7}}`, `{"failed":"no"}`, `{"started":true}`, ``, `null`, `7`, `{`, `{"argv":7}`, `{"end":"x"}`} {
		f.Add(framed(text), 4, 0)
	}
	f.Add(binary.BigEndian.AppendUint32(nil, keeper.MaxFrame+1), 4, 1)
	f.Add(binary.BigEndian.AppendUint32(nil, 1<<32-1), 2, 1)
	f.Add([]byte{0, 0, 0}, 1, 6)
	f.Fuzz(func(t *testing.T, data []byte, cut, passed int) {
		// Descriptors come with a byte at least.
		cut = min(max(1, cut), len(data))
		passed = max(0, min(passed, 8, 8*len(data)))
		receives[keeper.Job](t, data, cut, passed)
		receives[keeper.Word](t, data, cut, passed)
	})
}

func receives[Frame any](t *testing.T, data []byte, cut, passed int) {
	t.Helper()
	var got, want Frame
	files, rest, err := arrives(t, data, cut, passed, &got)
	for _, file := range files {
		if err := file.Close(); err != nil {
			t.Errorf("a descriptor that came: %v", err)
		}
	}
	// More than a job has are dropped by the kernel.
	if passed <= 4 && len(files) != passed {
		t.Errorf("%d descriptors were sent and %d came: %v", passed, len(files), err)
	}
	good := false
	var behind []byte
	if len(data) >= 4 {
		size := int64(binary.BigEndian.Uint32(data))
		if size <= keeper.MaxFrame && int64(len(data)) >= 4+size {
			good = json.Unmarshal(data[4:4+size], &want) == nil
			behind = data[4+size:]
		}
	}
	if good != (err == nil) && !(passed > 4 && err != nil) {
		t.Fatalf("%.200q: received %+v, %v", data, got, err)
	}
	if err != nil {
		return
	}
	if diff := cmp.Diff(want, got); diff != "" || !bytes.Equal(rest, behind) {
		t.Errorf("%.200q: %q is left, want %q; frame (-want +got):\n%s", data, rest, behind, diff)
	}
}

// What is sent is what is received, with its descriptors; what is too large is not sent at all.
func TestSend(t *testing.T) {
	t.Parallel()
	for _, want := range jobs() {
		ours, theirs := ends(t)
		if err := keeper.Send(ours, want, 0, 1); err != nil {
			t.Fatal(err)
		}
		var got keeper.Job
		files, err := keeper.Receive(theirs, &got)
		if diff := cmp.Diff(want, got); err != nil || diff != "" || len(files) != 2 {
			t.Errorf("%d files, %v, frame (-want +got):\n%s", len(files), err, diff)
		}
		for _, file := range files {
			_ = file.Close()
		}
		if err := keeper.Send(ours, keeper.Job{Path: strings.Repeat("x", keeper.MaxFrame)}); err == nil || !strings.Contains(err.Error(), "too large") {
			t.Errorf("a frame beyond the bound: %v", err)
		}
		_ = ours.Close()
		if _, err := keeper.Receive(theirs, &got); err == nil {
			t.Error("a frame came after the end")
		}
		_ = theirs.Close()
	}
}
