// Package pg gives tests a PostgreSQL database of their own: on a private
// cluster that it starts from the server's binaries in a temporary folder, or
// on the server that DRAWBRIDGE_TEST_POSTGRES names. It is for tests alone and
// knows no schema. Rule of thumb: one cluster a test binary, one database a test.
package pg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"drawbridge/internal/freeport"
)

// Variable names the environment variable with the URL of a server to use
// instead of a private one. Its user must be allowed to create databases.
// The value "none" leaves out every test on PostgreSQL.
const Variable = "DRAWBRIDGE_TEST_POSTGRES"

// none is the value of Variable on a machine without PostgreSQL.
const none = "none"

// Server is a running server. Safe for concurrent use until Stop.
type Server struct {
	base *url.URL
	dir  string
	cmd  *exec.Cmd
	done chan error
	// program starts the private server over its data, nil where the environment names a server.
	program *exec.Cmd
	made    atomic.Int64
	// release lets go of the server's port.
	release func() error
}

// ErrNoBinaries says that there is no PostgreSQL to start.
var ErrNoBinaries = errors.New("no PostgreSQL server binaries found (initdb, postgres): install Debian's package postgresql, run scripts/postgres.sh --install, or set " + Variable)

// Durable puts private clusters on the disk and makes them wait for it at each commit, as real ones do: for benchmarks, and for proofs that end PostgreSQL
// itself. Set it before the first Start.
var Durable bool

// Start starts a private cluster, or takes the server that the environment names.
func Start(ctx context.Context) (*Server, error) {
	if address := os.Getenv(Variable); address == none {
		return nil, ErrNoBinaries
	} else if address != "" {
		u, err := url.Parse(address)
		if err != nil {
			return nil, fmt.Errorf("%s is no URL", Variable)
		}
		return &Server{base: u}, nil
	}
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	place := ""
	if !Durable {
		place = inMemory()
	}
	dir, err := os.MkdirTemp(place, "drawbridge-pg-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, done: make(chan error, 1)}
	if err := s.start(ctx, bin); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// binaries finds the folder of the newest server on this machine.
func binaries() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	var found []string
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin/initdb", "/usr/pgsql-*/bin/initdb", "/opt/homebrew/opt/postgresql*/bin/initdb"} {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		found = append(found, matches...)
	}
	if len(found) == 0 {
		return "", ErrNoBinaries
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return cmp.Compare(version(a), version(b)) })), nil
}

var numbers = regexp.MustCompile(`\d+(\.\d+)?`)

// version is the version in the path of a server's program, 0 without one: 16 counts more than 9.6.
func version(path string) float64 {
	v, _ := strconv.ParseFloat(numbers.FindString(path), 64)
	return v
}

func (s *Server) start(ctx context.Context, bin string) error {
	owner, err := unprivileged(s.dir)
	if err != nil {
		return err
	}
	data := filepath.Join(s.dir, "data")
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C.UTF-8")
	initdb.SysProcAttr, initdb.Dir = owner, s.dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	port, release, err := freeport.Hold()
	if err != nil {
		return err
	}
	s.release = release
	s.base = &url.URL{Scheme: "postgres", User: url.User("postgres"), Host: "127.0.0.1:" + port, Path: "/postgres", RawQuery: "sslmode=disable"}
	sync := "off" // tests end processes and never the machine, so that nothing written is lost
	if Durable {
		sync = "on"
	}
	s.program = exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", //nolint:noctx // Stop ends it
		"-c", "max_connections=300", "-c", "fsync="+sync, "-c", "shared_buffers=64MB", "-c", "log_min_messages=fatal")
	s.program.SysProcAttr, s.program.Dir = owner, s.dir
	return s.serve(ctx)
}

// serve starts the server over its data and waits until it answers.
func (s *Server) serve(ctx context.Context) error {
	cmd := *s.program
	s.cmd = &cmd
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	go func() { s.done <- cmd.Wait() }()
	return s.ready(ctx)
}

// Restart ends the private server at once, as a crash does, and starts it over what it has on the disk. It reports false for a
// server that the environment names. Nothing else may use the server's Stop or Restart meanwhile.
func (s *Server) Restart(ctx context.Context) (bool, error) {
	if s.program == nil {
		return false, nil
	}
	if err := s.cmd.Process.Signal(syscall.SIGQUIT); err != nil { // the "immediate" stop
		return false, fmt.Errorf("stop postgres: %w", err)
	}
	<-s.done
	return true, s.serve(ctx)
}

// unprivileged makes the folder belong to a user that PostgreSQL runs as: it refuses to run as root.
func unprivileged(dir string) (*syscall.SysProcAttr, error) {
	attr := EndsWithUs()
	if os.Geteuid() != 0 {
		return attr, nil
	}
	const nobody = 65534
	attr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	return attr, os.Chown(dir, nobody, nobody)
}

func (s *Server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, s.base.String())
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case err := <-s.done:
			s.done <- err
			return fmt.Errorf("postgres ended at its start: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("postgres does not answer: %w", err)
		case <-tick.C:
		}
	}
}

// Database creates an empty database and returns its URL.
func (s *Server) Database(ctx context.Context) (string, error) {
	conn, err := pgx.Connect(ctx, s.base.String())
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	name := "drawbridge_test_" + strconv.Itoa(os.Getpid()) + "_" + strconv.FormatInt(s.made.Add(1), 10)
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		return "", fmt.Errorf("create database: %w", err)
	}
	u := *s.base
	u.Path = "/" + name
	return u.String(), nil
}

// Drop removes a database that Database made, whoever is still connected.
func (s *Server) Drop(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, s.base.String())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, "DROP DATABASE IF EXISTS "+strings.TrimPrefix(u.Path, "/")+" WITH (FORCE)")
	return err
}

// Stop stops the private server and removes its folder.
func (s *Server) Stop() error {
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Signal(syscall.SIGINT) // the server's "fast" stop
		select {
		case <-s.done:
		case <-time.After(time.Minute):
			_ = s.cmd.Process.Kill()
			<-s.done
		}
	}
	if s.release != nil {
		if err := s.release(); err != nil {
			return err
		}
	}
	if s.dir == "" {
		return nil
	}
	return os.RemoveAll(s.dir)
}
