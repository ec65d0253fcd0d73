package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"drawbridge/bridge"
)

// runTrouble says in words what keeps a running store from recording, when that
// is the disk's or the server's doing. Other errors come back as they are.
func runTrouble(err error) error {
	words := troubleOf(err)
	switch {
	case words != "":
		words += ". This change was not recorded; try again"
	case unreachable(err): // it may have been the answer to the commit that was lost
		words = "the database server cannot be reached. Check whether this change was recorded before you try again"
	default:
		return err
	}
	return &bridge.Error{Kind: bridge.Unavailable, Message: words, Cause: err}
}

// canceled returns ctx's own error when the caller has given up and the driver says so in
// its own words: an interrupted statement, or a connection that it cut. Other errors come
// back as they are, so that a failure of the disk stays one.
func canceled(ctx context.Context, err error) error {
	if err == nil || !errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, context.Canceled) && !unreachable(err) {
		return err
	}
	var lite *sqlite.Error
	interrupted := errors.As(err, &lite) && lite.Code()&0xff == sqlite3.SQLITE_INTERRUPT
	if !interrupted && !unreachable(err) && !errors.Is(err, sql.ErrTxDone) && !errors.Is(err, sql.ErrConnDone) {
		return err
	}
	return fmt.Errorf("%w: %v", ctx.Err(), err) //nolint:errorlint // the driver's error must not be taken for a fault
}

// readTrouble is runTrouble for what only reads.
func readTrouble(err error) error {
	words := troubleOf(err)
	if words == "" && unreachable(err) {
		words = "the database server cannot be reached"
	}
	if words == "" {
		return err
	}
	return &bridge.Error{Kind: bridge.Unavailable, Message: words + "; try again", Cause: err}
}

// unreachable reports whether a connection to PostgreSQL could not be made, or
// broke. Classes 08 and 57 are connections and the operator's hand, and 25P03 ends the
// session of a transaction that idled for too long (PostgreSQL's manual, appendix A).
func unreachable(err error) bool {
	var dial *pgconn.ConnectError
	if errors.As(err, &dial) {
		return true
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return strings.HasPrefix(pg.Code, "08") || strings.HasPrefix(pg.Code, "57") || pg.Code == "25P03"
	}
	var network *net.OpError
	return errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, driver.ErrBadConn)
}

// troubleOf says what an error code means that is the disk's or the server's doing, "" for any other error.
func troubleOf(err error) string {
	var lite *sqlite.Error
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &lite):
		switch lite.Code() & 0xff {
		case sqlite3.SQLITE_FULL:
			return "the disk of the database is full; make room"
		case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN:
			return "the database cannot be written; look at the disk and the system's log"
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
			return "the database is locked by another program, such as a sqlite3 shell or a backup; end it"
		}
	case errors.As(err, &pg):
		switch {
		case pg.Code == "53100": // disk_full
			return "the disk of the database server is full; make room"
		case pg.Code == "57014", pg.Code == "55P03", pg.Code == "40001", pg.Code == "40P01": // query_canceled, lock_not_available: our own limits; the others: steps that met each other in every try
			return "the database server takes too long; look at its load and at the sessions that hold locks"
		case strings.HasPrefix(pg.Code, "53"), pg.Code == "57P03": // resources, start; a shutdown may end a session after its commit
			return "the database server takes no work now"
		case pg.Code == "25006": // read_only_sql_transaction
			return "the database server accepts no writes; if it is a standby, give the address of the primary server"
		}
	}
	return ""
}

// startTrouble says in words what SQLite means by a result code, or the system by
// an error at a path, and what to do about it. Other errors come back as they are.
func startTrouble(err error, path string) error {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return pathTrouble(err, path)
	}
	kind, words := bridge.Unavailable, ""
	switch e.Code() & 0xff { // the rest of a code only refines it
	case sqlite3.SQLITE_NOTADB:
		kind, words = bridge.Invalid, "is not a database, or its beginning is damaged; choose another path, or restore it from a backup. Nothing was changed"
	case sqlite3.SQLITE_CORRUPT:
		kind, words = bridge.Invalid, "is damaged; restore it and the files beside it (-wal, -shm) from a backup, or move all three away to begin again. Nothing was changed"
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		kind, words = bridge.Conflict, "is locked by another program, such as a sqlite3 shell or a backup; end it and start again. Nothing was changed"
	case sqlite3.SQLITE_FULL:
		words = "cannot be written, because the disk is full; make room and start again. Everything that the bridge acknowledged is still there"
	case sqlite3.SQLITE_IOERR:
		words = "cannot be read or written; look at the disk and the system's log, and start again. Everything that the bridge acknowledged is still there unless the disk lost it"
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		words = "cannot be opened for writing; check the rights of the file, its folder and the files beside it (-wal, -shm)"
	default:
		return err
	}
	return &bridge.Error{Kind: kind, Message: "the database " + path + " " + words, Cause: err}
}

// pathRemedies are the system's errors at a path, each with what is wrong and what to do.
var pathRemedies = []struct {
	is    error
	words string
}{
	{fs.ErrPermission, "cannot be written by the user that runs the bridge; give that user the right to write the file and its folder, or choose another path"},
	{syscall.ENOTDIR, "is not in a folder, because a part of its path is a file; choose another path"},
	{syscall.ELOOP, "leads through links in a circle, so it is a link that leads to no file; correct or remove the link, or choose another path"},
	{syscall.ENOENT, "cannot be created in its folder: the file system there takes no new files, or somebody removed the folder meanwhile; choose another path"},
	{syscall.ENAMETOOLONG, "has a name that is too long for the file system; choose a shorter path"},
	{syscall.EROFS, "is on a file system that is mounted read-only; mount it for writing, or choose another path"},
	{syscall.ENOSPC, "cannot be written, because the disk is full; make room and start again"},
	{syscall.EDQUOT, "cannot be written, because the quota of the disk is used up; make room and start again"},
}

// pathTrouble says what to do about an error of the system at the path of a database.
func pathTrouble(err error, path string) error {
	for _, r := range pathRemedies {
		if errors.Is(err, r.is) {
			return &bridge.Error{Kind: bridge.Invalid, Message: "the database " + path + " " + r.words, Cause: err}
		}
	}
	return err
}
