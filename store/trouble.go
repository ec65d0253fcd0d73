package store

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"drawbridge/bridge"
)

// runTrouble says in words what keeps a running store from recording, when that
// is the disk's or the server's doing. Other errors come back as they are.
func runTrouble(err error) error {
	var lite *sqlite.Error
	var pg *pgconn.PgError
	words := ""
	switch {
	case errors.As(err, &lite):
		switch lite.Code() & 0xff {
		case sqlite3.SQLITE_FULL:
			words = "the disk of the database is full; make room"
		case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN:
			words = "the database cannot be written; look at the disk and the system's log"
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
			words = "the database is locked by another program, such as a sqlite3 shell or a backup; end it"
		}
	case errors.As(err, &pg):
		switch {
		case pg.Code == "53100": // disk_full
			words = "the disk of the database server is full; make room"
		case strings.HasPrefix(pg.Code, "53"), strings.HasPrefix(pg.Code, "57P"): // resources, shutdown
			words = "the database server takes no work now"
		case pg.Code == "25006": // read_only_sql_transaction
			words = "the database server takes no writes; is it a standby?"
		}
	}
	if words == "" {
		return err
	}
	return &bridge.Error{Kind: bridge.Unavailable, Message: words + ". Nothing of this was recorded; try again", Cause: err}
}

// startTrouble says in words what SQLite means by a result code, and what to do
// about it. Other errors come back as they are.
func startTrouble(err error, path string) error {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return err
	}
	kind, words := bridge.Unavailable, ""
	switch e.Code() & 0xff { // the rest of a code only refines it
	case sqlite3.SQLITE_NOTADB:
		kind, words = bridge.Invalid, "is not a database, or its beginning is damaged; choose another path, or restore it from a backup. Nothing was changed"
	case sqlite3.SQLITE_CORRUPT:
		kind, words = bridge.Invalid, "is damaged; restore it and the files beside it (-wal, -shm) from a backup, or move all three away to begin anew. Nothing was changed"
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		kind, words = bridge.Conflict, "is locked by another program, such as a sqlite3 shell or a backup; end it and start again. Nothing was changed"
	case sqlite3.SQLITE_FULL:
		words = "cannot be written, because the disk is full; make room and start again. What was acknowledged is still there"
	case sqlite3.SQLITE_IOERR:
		words = "cannot be read or written; look at the disk and the system's log, and start again. What was acknowledged is still there unless the disk lost it"
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		words = "cannot be opened for writing; check the rights of the file, its folder and the files beside it (-wal, -shm)"
	default:
		return err
	}
	return &bridge.Error{Kind: kind, Message: "the database " + path + " " + words, Cause: err}
}
