package main

import (
	"context"

	"drawbridge/bridge"
	"drawbridge/store"
)

// keyFact is the name under which a database remembers its bridge key's print.
const keyFact = "bridge key"

// claimKey compares the bridge key with the one that the database knows, by its
// print. With another key, operations would get other ids: what was launched
// could be launched again, and webhooks under way would be refused. A new key is
// accepted when old_keys has the one that the database knows, or when anyKey
// says that it is lost.
func claimKey(ctx context.Context, s *store.Store, keys bridge.Keys, anyKey bool) error {
	known := make([]string, len(keys.Old))
	for i, old := range keys.Old {
		known[i] = old.Print()
	}
	mine := keys.Current.Print()
	stands, err := s.SwapFact(ctx, keyFact, mine, known...)
	if err == nil && stands != mine && anyKey {
		stands, err = s.SwapFact(ctx, keyFact, mine, stands)
	}
	if err != nil || stands == mine {
		return err
	}
	return bridge.Errorf(bridge.Conflict, "this database was used with another key than the one in bridge.yaml (print %s, now %s). The earlier key is not below old_keys either. "+
		"Put the earlier key back. If you or another replica changed the key on purpose, list the earlier key below old_keys. "+
		"If the earlier key is lost: stop every replica, settle what is uncertain, and start once with --new-key", stands, mine)
}
