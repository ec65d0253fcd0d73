package store

import (
	"cmp"

	"drawbridge/bridge"
	"drawbridge/bridge/search"
)

func blockArgs(b *bridge.Block) []any {
	return []any{b.Agent, b.Label, b.Version, b.Content, micros(b.UpdatedAt)}
}

var blocksTable = table[string, bridge.Block]{
	name: "blocks", columns: blockColumns, scan: scanBlock,
	key:        func(b *bridge.Block) string { return bridge.BlockKey(b.Agent, b.Label) },
	insert:     insertSQL("blocks", blockColumns),
	update:     "UPDATE blocks SET version = $3, content = $4, updated_at = $5 WHERE agent = $1 AND label = $2",
	args:       asArgs(blockArgs),
	remove:     "DELETE FROM blocks WHERE agent = $1 AND label = $2",
	removeArgs: func(b *bridge.Block) []any { return []any{b.Agent, b.Label} },
}

var versionsTable = table[string, bridge.Block]{
	name: "block_versions", columns: blockColumns, scan: scanBlock,
	key:        bridge.VersionKey,
	insert:     insertSQL("block_versions", blockColumns),
	args:       asArgs(blockArgs),
	remove:     "DELETE FROM block_versions WHERE agent = $1 AND label = $2 AND version = $3",
	removeArgs: func(b *bridge.Block) []any { return []any{b.Agent, b.Label, b.Version} },
}

var bytesTable = table[bridge.AgentID, bridge.BytesRow]{
	name: "memory_bytes", columns: "agent, bytes",
	scan: func(r scanner) (v bridge.BytesRow, err error) {
		err = r.Scan(&v.Agent, &v.Bytes)
		return v, err
	},
	key:    func(v *bridge.BytesRow) bridge.AgentID { return v.Agent },
	insert: putSQL("memory_bytes", "agent, bytes"),
	args:   asArgs(func(v *bridge.BytesRow) []any { return []any{v.Agent, v.Bytes} }),
}

var passagesTable = table[bridge.PassageID, bridge.Passage]{
	name: "passages", columns: passageColumns, scan: scanPassage,
	key:    func(p *bridge.Passage) bridge.PassageID { return p.ID },
	insert: insertSQL("passages", passageColumns),
	args: func(p *bridge.Passage) ([]any, error) {
		tags, err := toJSON(p.Tags)
		return []any{p.ID, p.Agent, p.Seq, p.Content, tags, micros(p.CreatedAt)}, err
	},
	remove:     "DELETE FROM passages WHERE id = $1",
	removeArgs: func(p *bridge.Passage) []any { return []any{p.ID} },
}

var tokensTable = table[bridge.TokenID, bridge.DoorToken]{
	name: "door_tokens", columns: tokenColumns, scan: scanToken,
	key:    func(t *bridge.DoorToken) bridge.TokenID { return t.ID },
	insert: insertSQL("door_tokens", tokenColumns), update: updateSQL("door_tokens", tokenColumns),
	args: asArgs(func(t *bridge.DoorToken) []any {
		return []any{t.ID, t.Agent, t.Hash, t.Generation, t.Client, micros(t.CreatedAt), micros(t.LastUsed), micros(t.RevokedAt)}
	}),
}

var runsTable = table[string, bridge.RunMessage]{
	name: "run_messages", columns: runColumns, scan: scanRunMessage,
	key:    bridge.RunKey,
	insert: insertSQL("run_messages", runColumns),
	args: asArgs(func(m *bridge.RunMessage) []any {
		return []any{m.Turn, m.Seq, m.Kind, m.Name, m.CallID, m.Payload, micros(m.At)}
	}),
}

// writeMemory writes passages with what finds them: the index knows a passage by the number of its row.
func writeMemory(out *[]statement, sc *bridge.Scene, index *textIndex) error {
	r := sc.Rows
	for w := range r.Passages.Writes() {
		if w.Now == nil {
			*out = append(*out, statement{sql: index.remove, args: []any{w.Key}})
		}
	}
	err := cmp.Or(
		writesOf(out, &r.Blocks, blocksTable),
		writesOf(out, &r.Versions, versionsTable),
		writesOf(out, &r.MemoryBytes, bytesTable),
		writesOf(out, &r.Passages, passagesTable),
		writesOf(out, &r.Tokens, tokensTable),
		writesOf(out, &r.RunMessages, runsTable))
	if err != nil {
		return err
	}
	for w := range r.Passages.Writes() {
		if w.Now != nil {
			*out = append(*out, statement{sql: index.insert, args: []any{w.Key, index.terms(search.IndexTerms(*w.Now))}})
		}
	}
	return nil
}

func loadMemory(sc *bridge.Scene, need bridge.Need) []query {
	r := sc.Rows
	var q query
	switch n := need.(type) {
	case bridge.NeedBlock:
		q = into(sc, need, &r.Blocks, blocksTable).rows("WHERE agent = $1 AND label = $2", n.Agent, n.Label)
	case bridge.NeedBlocks:
		q = into(sc, need, &r.Blocks, blocksTable).rows("WHERE agent = $1", n.Agent)
	case bridge.NeedVersions:
		q = into(sc, need, &r.Versions, versionsTable).rows("WHERE agent = $1 AND label = $2 ORDER BY version DESC LIMIT $3", n.Agent, n.Label, n.Limit)
	case bridge.NeedOldVersions:
		q = into(sc, need, &r.Versions, versionsTable).rows("WHERE agent = $1 AND label = $2 AND version <= $3", n.Agent, n.Label, n.Last)
	case bridge.NeedMemoryBytes:
		q = into(sc, need, &r.MemoryBytes, bytesTable).rows("WHERE agent = $1", n.Agent)
	case bridge.NeedPassage:
		q = into(sc, need, &r.Passages, passagesTable).rows("WHERE id = $1", n.ID)
	case bridge.NeedPassageCount:
		q = counted(sc, need, "SELECT count(*) FROM passages WHERE agent = $1", n.Agent)
	case bridge.NeedLastPassage:
		q = counted(sc, need, "SELECT coalesce(max(seq), 0) FROM passages WHERE agent = $1", n.Agent)
	default:
		return loadTokens(sc, need)
	}
	return []query{q}
}

func loadTokens(sc *bridge.Scene, need bridge.Need) []query {
	r := sc.Rows
	var q query
	switch n := need.(type) {
	case bridge.NeedToken:
		q = into(sc, need, &r.Tokens, tokensTable).rows("WHERE id = $1", n.ID)
	case bridge.NeedTokenHash:
		q = into(sc, need, &r.Tokens, tokensTable).rows("WHERE hash = $1", n.Hash)
	case bridge.NeedTokens:
		q = into(sc, need, &r.Tokens, tokensTable).rows("WHERE agent = $1", n.Agent)
	case bridge.NeedRunMessages:
		q = into(sc, need, &r.RunMessages, runsTable).rows("WHERE turn = $1 AND seq > $2 ORDER BY seq LIMIT $3", n.Turn, n.After, n.Limit)
	case bridge.NeedRunCall:
		q = into(sc, need, &r.RunMessages, runsTable).rows("WHERE turn = $1 AND call_id = $2", n.Turn, n.CallID)
	case bridge.NeedLastRunMessage:
		q = counted(sc, need, "SELECT coalesce(max(seq), 0) FROM run_messages WHERE turn = $1", n.Turn)
	default:
		return nil
	}
	return []query{q}
}
