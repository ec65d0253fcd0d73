package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"drawbridge/bridge"
)

// migrateUp brings a schema up to date, unless a newer program has been there or
// a migration is not what it was.
func migrateUp(ctx context.Context, p *goose.Provider, db *sql.DB, dialect string) error {
	has, err := p.GetDBVersion(ctx)
	if err != nil {
		return fmt.Errorf("read the schema's version: %w", err)
	}
	ours, err := migrationSums(dialect)
	if err != nil {
		return err
	}
	if err := notNewer(has, slices.Max(slices.Collect(maps.Keys(ours)))); err != nil {
		return err
	}
	applied, err := appliedSums(ctx, db)
	if err != nil {
		return fmt.Errorf("read migrations' digests: %w", err)
	}
	if err := unedited(applied, ours); err != nil {
		return err
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return recordSums(ctx, db, ours)
}

// notNewer keeps an older program off a schema that it does not know: what it
// writes would lack what the newer one counts on.
func notNewer(has, knows int64) error {
	if has <= knows {
		return nil
	}
	return bridge.Errorf(bridge.Conflict, "the database was made by a newer drawbridge: its schema is version %d and this program knows %d; start the newer program, or restore a backup from before the upgrade. Nothing was changed", has, knows)
}

// CheckSchema reports whether this program may open a database, without opening
// it for work: it takes no lock and changes nothing, so that it may be asked
// while a bridge serves. A database that is not there yet, or is empty, is fine.
// Conflict when its schema is of a newer program or its migrations were edited,
// Unavailable when it cannot be read.
func CheckSchema(ctx context.Context, database string) error {
	dialect, db, err := openToRead(database)
	if db == nil || err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // nothing was written
	ours, err := migrationSums(dialect)
	if err != nil {
		return err
	}
	applied, err := appliedSums(ctx, db)
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && pg.Code == "42P01", err != nil && strings.Contains(err.Error(), "no such table"):
		return nil // undefined_table: the first start fills it
	case err != nil && dialect == "sqlite":
		return startTrouble(err, database)
	case err != nil:
		return readFirst(database, err)
	case len(applied) == 0:
		return nil
	}
	if err := notNewer(slices.Max(slices.Collect(maps.Keys(applied))), slices.Max(slices.Collect(maps.Keys(ours)))); err != nil {
		return err
	}
	return unedited(applied, ours)
}

// openToRead returns no database when there is none yet.
func openToRead(database string) (dialect string, db *sql.DB, err error) {
	if IsURL(database) {
		config, err := parseAddress(database)
		if err != nil {
			return "", nil, err
		}
		return "postgres", stdlib.OpenDB(*config), nil
	}
	path, err := realPath(database)
	if err == nil {
		err = mayWrite(path)
	}
	if err != nil {
		return "", nil, startTrouble(err, database)
	}
	if err := checkRegular(path); errors.Is(err, fs.ErrNotExist) {
		return "", nil, nil
	} else if err != nil {
		return "", nil, startTrouble(err, database)
	}
	db, err = sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?mode=ro&_pragma=busy_timeout(10000)")
	return "sqlite", db, err
}

// readFirst says why a PostgreSQL database could not be asked for its schema.
func readFirst(database string, err error) error {
	config, bad := parseAddress(database)
	if bad != nil {
		return bad
	}
	return connectTrouble(err, config)
}
