package store

import (
	"strings"

	"drawbridge/bridge"
	"drawbridge/bridge/search"
)

const blockColumns = "agent, label, version, content, updated_at"

func scanBlock(row scanner) (b bridge.Block, err error) {
	err = row.Scan(&b.Agent, &b.Label, &b.Version, &b.Content, microTime{&b.UpdatedAt})
	return b, err
}

const passageColumns = "id, agent, seq, content, tags, created_at"

func scanPassage(row scanner) (p bridge.Passage, err error) {
	err = row.Scan(&p.ID, &p.Agent, &p.Seq, &p.Content, jsonText{&p.Tags}, microTime{&p.CreatedAt})
	return p, err
}

// textIndex is how one kind of database is told what to index and asked for it.
type textIndex struct {
	// claim is the statement that hands out work, lane the one that locks a lane ("" where there is one writer).
	claim, lane string
	insert      string
	// remove takes a row away; what its words were is not asked for.
	remove string
	terms  func([]string) string
	query  func([]search.Term) string
	// plan is what a transaction says before it searches; "" for nothing.
	plan string
	// ranked finds the best $2 by the database's own measure among the newest $3, newest the newest $2.
	ranked, newest string
}

// fts5 ranks by BM25.
var fts5 = &textIndex{
	claim:  claimWork(""),
	insert: "INSERT INTO passage_index (rowid, terms) SELECT n, $2 FROM passages WHERE id = $1",
	remove: "DELETE FROM passage_index WHERE rowid = (SELECT n FROM passages WHERE id = $1)",
	terms:  func(terms []string) string { return strings.Join(terms, " ") },
	query:  search.FTS5,
	ranked: `SELECT n FROM (SELECT rowid AS n, bm25(passage_index) AS cost FROM passage_index WHERE passage_index MATCH $1 ORDER BY rowid DESC LIMIT $3)
		ORDER BY cost, n DESC LIMIT $2`,
	newest: "SELECT rowid FROM passage_index WHERE passage_index MATCH $1 ORDER BY rowid DESC LIMIT $2",
}

// tsvector ranks by how often the words stand there, less for a longer text.
// n + 0 keeps the planner from walking all rows from the newest on in the hope
// that many match, which took 50 times as long for words that are rare.
var tsvector = &textIndex{
	claim:  claimWork(" FOR UPDATE SKIP LOCKED"), // who holds a row is at it
	lane:   "SELECT 1 FROM lanes WHERE lane = $1 FOR UPDATE",
	insert: "INSERT INTO passage_index (n, terms) SELECT n, $2::tsvector FROM passages WHERE id = $1",
	remove: "DELETE FROM passage_index WHERE n = (SELECT n FROM passages WHERE id = $1)",
	terms:  search.TSVector,
	query:  search.TSQuery,
	plan:   "SET LOCAL plan_cache_mode = force_custom_plan", // how many rows have a word depends on the word
	ranked: `SELECT n FROM passage_index JOIN (SELECT n FROM passage_index WHERE terms @@ $1::tsquery ORDER BY n + 0 DESC LIMIT $3) AS newest USING (n)
		ORDER BY ts_rank(terms, $1::tsquery, 1) DESC, n DESC LIMIT $2`,
	newest: "SELECT n FROM passage_index WHERE terms @@ $1::tsquery ORDER BY n + 0 DESC LIMIT $2",
}

// candidates returns the passages of which the best are chosen: the pool best
// among the newest that match, or the pool newest.
func (t *tx) candidates(query string, pool int, ranked bool) ([]bridge.Passage, error) {
	const find = "SELECT " + passageColumns + " FROM passages WHERE n IN ("
	args, index := []any{query, pool}, t.index.newest
	if ranked {
		args, index = append(args, bridge.SearchNewest), t.index.ranked
	}
	return selectAll(t, scanPassage, find+index+")", args...)
}

// search finds passages. The index finds candidates; which are the best of them is
// the same on every store.
func (t *tx) search(q bridge.PassageQuery) ([]bridge.Passage, error) {
	if t.index.plan != "" {
		if err := t.exec(t.index.plan); err != nil {
			return nil, err
		}
	}
	query, err := search.Parse(q)
	if err != nil || query.Never {
		return nil, err
	}
	terms := query.QueryTerms()
	if len(terms) == 0 {
		return selectAll(t, scanPassage, "SELECT "+passageColumns+" FROM passages WHERE agent = $1 ORDER BY seq DESC LIMIT $2", q.Agent, query.Limit)
	}
	candidates, err := t.candidates(t.index.query(terms), max(bridge.SearchPool, query.Limit), len(query.Terms) > 0)
	return query.Best(candidates), err
}
