package door

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Ends are those of a [Pipe].
type Ends struct {
	// Socket is the path of the socket, and Word what [WordVariable] holds.
	Socket, Word string
	In           io.Reader
	Out          io.Writer
}

// Pipe carries lines between an agent and the socket of its process, until either end is over.
func Pipe(ctx context.Context, e Ends) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", e.Socket)
	if err != nil {
		return fmt.Errorf("the socket %s does not answer; the socket exists only while the agent's own process runs: %w", e.Socket, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(2 * greetFor))
	// A relay that refuses at once may have closed its end before the word is written. Its reason can still be read.
	_, unsaid := io.WriteString(conn, e.Word+"\n")
	from := bufio.NewReader(conn)
	line, err := from.ReadString('\n')
	switch said := strings.TrimSpace(line); {
	case said == "" && unsaid != nil:
		return fmt.Errorf("speak to the relay: %w", unsaid)
	case err != nil || said != admitted:
		return fmt.Errorf("the relay did not let this program in: %s", strings.TrimPrefix(said, "refused: "))
	}
	_ = conn.SetDeadline(time.Time{})
	go func() { // ends with In, which nothing can interrupt; main ends the process
		_, _ = io.Copy(conn, e.In)
		_ = conn.(*net.UnixConn).CloseWrite()
	}()
	_, err = io.Copy(e.Out, from)
	if errors.Is(err, net.ErrClosed) || ctx.Err() != nil {
		return nil
	}
	return err
}

// watched is the agent's end of a connection. A program that has ended its input may still read; one that is gone may not hold calls.
type watched struct {
	io.Reader
	conn net.Conn
	lost func()
}

// lookEvery is how often a connection without input is looked at.
const lookEvery = 500 * time.Millisecond

// Read implements io.Reader.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if errors.Is(err, io.EOF) && n == 0 {
		w.look()
	}
	return n, err
}

// look ends the calls of a program that is gone, now or later. It does not wait.
func (w *watched) look() {
	raw, err := w.conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		w.lost()
		return
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		look := []unix.PollFd{{Fd: int32(fd)}}
		_, _ = unix.Poll(look, 0)
		gone = look[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
	})
	if gone || err != nil {
		w.lost()
		return
	}
	time.AfterFunc(lookEvery, w.look)
}
