package control_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"drawbridge/relay/runner/control"
)

// The parts of the attack, each a process of its own in one process namespace. The first process plays the user: it starts the
// relay, and later a process of the user that gets the number of the action.
const (
	partVariable  = "CONTROL_PART"
	stateVariable = "CONTROL_STATE"
	lateVariable  = "CONTROL_LATE"
)

// playPart becomes the process that the environment names, and then does not return.
func playPart() {
	parts := map[string]func(dir string) error{"user": playUser, "relay": playRelay, "action": playAction, "helper": playHelper, "bystander": playBystander}
	part, named := parts[os.Getenv(partVariable)]
	if !named {
		return
	}
	if err := part(os.Getenv(stateVariable)); err != nil {
		fmt.Println("error:", os.Getenv(partVariable), err)
		os.Exit(1)
	}
	os.Exit(0)
}

func child(part string, more ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(append(os.Environ(), partVariable+"="+part), more...)
	cmd.Stderr = os.Stderr
	return cmd
}

// playUser is the first process of the namespace.
func playUser(dir string) error {
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	relay := child("relay")
	said, err := relay.StdoutPipe()
	if err != nil {
		return err
	}
	orders, err := relay.StdinPipe()
	if err != nil {
		return err
	}
	if err := relay.Start(); err != nil {
		return err
	}
	lines := bufio.NewReader(said)
	line, err := lines.ReadString('\n')
	number, parsed := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "action ")))
	if err != nil || parsed != nil {
		return fmt.Errorf("the relay said %q: %w", line, errors.Join(err, parsed))
	}
	bystander, err := take(number)
	if err != nil {
		return err
	}
	fmt.Println("reused", number)
	if _, err := io.WriteString(orders, "go\n"); err != nil {
		return err
	}
	if _, err := io.Copy(os.Stdout, lines); err != nil {
		return err
	}
	return errors.Join(relay.Wait(), bystander.Process.Kill())
}

// taken says that a thread got the number first. Threads take numbers too, and may keep them.
const taken = "a thread has the number"

// take starts a process of the user that has the number.
func take(number int) (*exec.Cmd, error) {
	for range 5 {
		last := []byte(strconv.Itoa(number - 1))
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", last, 0); err != nil {
			return nil, fmt.Errorf("choose the next process id: %w", err)
		}
		cmd := child("bystander")
		if _, err := cmd.StdinPipe(); err != nil {
			return nil, err
		}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		if cmd.Process.Pid == number {
			return cmd, nil
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	return nil, errors.New(taken)
}

func playBystander(string) error {
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// playRelay serves the door and runs one action, and answers "yes" or "no" to whether a question was approved.
func playRelay(dir string) error {
	syscall.Umask(0o077)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	var r relay
	server, err := control.Listen(context.Background(), dir, &r)
	if err != nil {
		return err
	}
	serve := func() { go func() { _ = server.Serve() }() }
	late := os.Getenv(lateVariable) != ""
	if !late {
		serve()
	}
	action := child("action")
	// The helper, which outlives the action, sends when it reads from here and says here what it was answered.
	begin, send, err := os.Pipe()
	if err != nil {
		return err
	}
	answers, answer, err := os.Pipe()
	if err != nil {
		return err
	}
	action.ExtraFiles = []*os.File{begin, answer}
	if err := action.Run(); err != nil {
		return err
	}
	_ = answer.Close()
	fmt.Println("action", action.Process.Pid)
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	if late {
		serve()
	}
	if _, err := io.WriteString(send, "go\n"); err != nil {
		return err
	}
	if _, err := io.Copy(os.Stdout, answers); err != nil {
		return err
	}
	fmt.Println("approved", strings.Join(r.said, ", "))
	return nil
}

// playAction connects, leaves the connection to a helper, and ends.
func playAction(dir string) error {
	conn, err := net.Dial("unix", filepath.Join(dir, control.SocketName))
	if err != nil {
		return err
	}
	file, err := conn.(*net.UnixConn).File()
	if err != nil {
		return err
	}
	if os.Getenv(lateVariable) == "" {
		// An answer shows that the connection was accepted. The status is refused, too.
		if status, _, err := ask(conn, "GET /nothing"); err != nil || status != http.StatusForbidden {
			return fmt.Errorf("the action's own request: HTTP %d, %w", status, err)
		}
	}
	helper := child("helper")
	helper.ExtraFiles = []*os.File{os.NewFile(3, "begin"), os.NewFile(4, "answer"), file}
	return helper.Start()
}

// ask sends one request and returns its status, and whether the relay ends the connection behind it.
func ask(conn net.Conn, route string) (status int, closed bool, err error) {
	const body = `{"approve": true}`
	if _, err := fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: relay\r\nContent-Length: %d\r\n\r\n%s", route, len(body), body); err != nil {
		return 0, true, err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, true, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.Close, err
}

func playHelper(string) error {
	if _, err := bufio.NewReader(os.NewFile(3, "begin")).ReadString('\n'); err != nil {
		return err
	}
	conn, err := net.FileConn(os.NewFile(5, "connection"))
	if err != nil {
		return err
	}
	status, closed, err := ask(conn, "POST /approvals/apr_a")
	_, err = fmt.Fprintf(os.NewFile(4, "answer"), "answered %d closed %t %v\n", status, closed, err)
	return err
}

// An action connects, leaves the connection to a process that it started, and ends; then a process of the user gets its number.
// What comes over the connection is still the action's, whether the relay accepted it before the number changed hands or after.
func TestReusedProcessIDApprovesNothing(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, late := range map[string]string{"accepted before": "", "accepted after": "1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := playAll(t, self, late)
			for range 100 {
				if !strings.Contains(string(out), taken) {
					break
				}
				out, err = playAll(t, self, late)
			}
			if !strings.Contains(string(out), "reused ") && !strings.Contains(string(out), taken) {
				t.Skipf("SKIPPED: this machine lets no process choose the process ids of a namespace of its own: %v, %s", err, out)
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if !strings.Contains(string(out), "approved \n") || strings.Contains(string(out), "answered 200") {
				t.Errorf("the action was let in under the number of another process:\n%s", out)
			}
			t.Logf("%s", out)
		})
	}
}

// playAll plays all parts in a new process namespace and returns what they said.
func playAll(t *testing.T, self, late string) ([]byte, error) {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), partVariable+"=user", stateVariable+"="+dir, lateVariable+"="+late)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	return cmd.CombinedOutput()
}
