package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/pressly/goose/v3"

	"drawbridge/bridge"
)

// released holds the digest of each migration as it was released, one "dialect
// file sha256" a line. A release adds its new migrations; no line changes. Databases that older
// programs made know no digests, so these stand in for them.
//
//go:embed released.txt
var released string

// migration is one file as this program has it.
type migration struct{ name, sum, released string }

// migrationSums reads the migrations of a dialect, by version.
func migrationSums(dialect string) (map[int64]migration, error) {
	dir, err := migrationsOf(dialect)
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(dir, "*.sql")
	if err != nil {
		return nil, err
	}
	known, out := releasedSums(dialect), map[int64]migration{}
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return nil, fmt.Errorf("read migrations: %w", err)
		}
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, fmt.Errorf("read migrations: %w", err)
		}
		out[version] = migration{name: name, sum: sumOf(text), released: known[name]}
	}
	return out, nil
}

// sumOf does not depend on how a checkout ends its lines.
func sumOf(text []byte) string {
	sum := sha256.Sum256(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")))
	return hex.EncodeToString(sum[:])
}

func releasedSums(dialect string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(released) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == dialect {
			out[f[1]] = f[2]
		}
	}
	return out
}

// unedited compares the migrations that a database has with those of this
// program: an edited one means that the two disagree about the schema, although
// both call it by the same version. applied maps versions to the digests that
// the database recorded, "" where it recorded none.
func unedited(applied map[int64]string, ours map[int64]migration) error {
	for _, version := range slices.Sorted(maps.Keys(applied)) {
		m, known := ours[version]
		if !known {
			return bridge.Errorf(bridge.Conflict, "the database has migration %d, which this program does not know; start the program that made it. Nothing was changed", version)
		}
		want := applied[version]
		if want == "" {
			want = m.released
		}
		if want != "" && want != m.sum {
			return bridge.Errorf(bridge.Conflict, "the migration %s of this program is not the one that the database was made with: somebody edited it after its release. Start a released drawbridge, or put the file back as it was released and build again; a change belongs into a new migration. Nothing was changed", m.name)
		}
	}
	return nil
}

// facts22 is the migration that made the table of digests.
const facts22 = 22

// appliedSums reads which migrations a database has, and their digests.
func appliedSums(ctx context.Context, db *sql.DB) (map[int64]string, error) {
	out := map[int64]string{}
	err := eachRow(ctx, db, "SELECT version_id, is_applied FROM "+goose.DefaultTablename+" WHERE version_id > 0 ORDER BY id", func(rows *sql.Rows) error {
		var version int64
		var applied bool
		if err := rows.Scan(&version, &applied); err != nil {
			return err
		}
		if out[version] = ""; !applied {
			delete(out, version)
		}
		return nil
	})
	if _, has := out[facts22]; err != nil || !has {
		return out, err
	}
	return out, eachRow(ctx, db, "SELECT version, sum FROM schema_sums", func(rows *sql.Rows) error {
		var version int64
		var sum string
		if err := rows.Scan(&version, &sum); err != nil {
			return err
		}
		if _, applied := out[version]; applied {
			out[version] = sum
		}
		return nil
	})
}

func eachRow(ctx context.Context, db *sql.DB, query string, scan func(*sql.Rows) error) error {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// recordSums writes down the digests of migrations that have none yet.
func recordSums(ctx context.Context, db *sql.DB, ours map[int64]migration) error {
	applied, err := appliedSums(ctx, db)
	if err != nil {
		return fmt.Errorf("read migrations' digests: %w", err)
	}
	for version, sum := range applied {
		if sum != "" {
			continue
		}
		if _, err := db.ExecContext(ctx, "INSERT INTO schema_sums (version, sum) VALUES ($1, $2) ON CONFLICT DO NOTHING", version, ours[version].sum); err != nil {
			return fmt.Errorf("record migrations' digests: %w", err)
		}
	}
	return nil
}

// SwapFact sets the fact called name to value when the database has none of that
// name, or one of those in from. It returns the fact that stands there
// afterwards: value, or another one that was left alone.
func (s *Store) SwapFact(ctx context.Context, name, value string, from ...string) (stands string, err error) {
	err = s.direct(ctx, func(t *tx) error {
		// Several replicas may do this at once. The row that is there first stands.
		if err := t.exec("INSERT INTO bridge_facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING", name, value); err != nil {
			return err
		}
		stands, err = selectOne(t, scanText, "SELECT value FROM bridge_facts WHERE name = $1", name)
		if err != nil || stands == value || !slices.Contains(from, stands) {
			return err
		}
		n, err := t.execCount("UPDATE bridge_facts SET value = $2 WHERE name = $1 AND value = $3", name, value, stands)
		switch {
		case err != nil:
			return err
		case n > 0:
			stands = value
			return nil
		}
		stands, err = selectOne(t, scanText, "SELECT value FROM bridge_facts WHERE name = $1", name)
		return err
	})
	return stands, err
}
