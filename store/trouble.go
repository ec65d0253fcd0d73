package store

import (
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"drawbridge/bridge"
)

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
