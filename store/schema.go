package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"drawbridge/bridge"
)

// migrateUp brings a schema up to date, unless a newer program has been there.
func migrateUp(ctx context.Context, p *goose.Provider) error {
	has, err := p.GetDBVersion(ctx)
	if err != nil {
		return fmt.Errorf("read the schema's version: %w", err)
	}
	sources := p.ListSources()
	if err := notNewer(has, sources[len(sources)-1].Version); err != nil {
		return err
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
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
// Conflict when its schema is of a newer program, Unavailable when it cannot be read.
func CheckSchema(ctx context.Context, database string) error {
	dialect, db, err := openToRead(database)
	if db == nil || err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // nothing was written
	var has sql.NullInt64
	err = db.QueryRowContext(ctx, "SELECT max(version_id) FROM "+goose.DefaultTablename+" WHERE is_applied").Scan(&has)
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && pg.Code == "42P01", err != nil && strings.Contains(err.Error(), "no such table"):
		return nil // undefined_table: the first start fills it
	case err != nil && dialect == "sqlite":
		return startTrouble(err, database)
	case err != nil:
		return readFirst(database, err)
	}
	newest, err := newestMigration(dialect)
	if err != nil {
		return err
	}
	return notNewer(has.Int64, newest)
}

// newestMigration returns the version of the last migration of a dialect that this program has.
func newestMigration(dialect string) (newest int64, err error) {
	dir, err := migrationsOf(dialect)
	if err != nil {
		return 0, err
	}
	names, err := fs.Glob(dir, "*.sql")
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return 0, fmt.Errorf("read migrations: %w", err)
		}
		newest = max(newest, version)
	}
	return newest, err
}

// openToRead returns no database when there is none yet.
func openToRead(database string) (dialect string, db *sql.DB, err error) {
	if IsURL(database) {
		config, _, err := parseAddress(database)
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
	config, _, bad := parseAddress(database)
	if bad != nil {
		return bad
	}
	return connectTrouble(err, config)
}
