package memory

import (
	"cmp"
	"slices"

	"drawbridge/bridge"
)

func watchKey(agent, on bridge.AgentID) string { return string(agent) + "\x00" + string(on) }

// PutWatch implements bridge.WatchTx.
func (t *tx) PutWatch(w bridge.Watch) error {
	w.CreatedAt = stamp(w.CreatedAt)
	return set(t, &t.state.watches, watchKey(w.Agent, w.On), &w)
}

// DropWatch implements bridge.WatchTx.
func (t *tx) DropWatch(agent, on bridge.AgentID) (bool, error) {
	if t.state.watches.get(watchKey(agent, on)) == nil {
		return false, nil
	}
	return true, set(t, &t.state.watches, watchKey(agent, on), nil)
}

// Watches implements bridge.WatchTx.
func (t *tx) Watches(limit int) (out []bridge.Watch, err error) {
	t.state.watches.oldest(func(w *bridge.Watch) bool {
		out = append(out, *w)
		return true
	})
	slices.SortFunc(out, func(a, b bridge.Watch) int { return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.On, b.On)) })
	return out[:min(len(out), cmp.Or(limit, 100))], nil
}
