package store

import (
	"context"
	"slices"
)

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
