package store

import (
	"fmt"
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
	// common is the other way to the same rows for words that stand in many
	// passages, where the database needs one; nil elsewhere.
	common *commonWords
}

// commonWords finds what matches by walking back from an agent's newest passage.
type commonWords struct {
	// sample counts what matches among the passages of agent $2 behind number $3.
	sample string
	// ranked and newest are those of textIndex, among the passages of an agent behind
	// a number, which are the last two arguments. They find nothing when fewer
	// match there than they look for.
	ranked, newest string
}

// When a walk is worth it. A sample looks at the newest sampled passages, a walk
// at no more than walked. PostgreSQL takes about as long for a row of either way,
// so that a word is common when the index would give often times the rows needed.
const (
	sampled = 256
	walked  = 16384
	often   = 4
)

// termsBehind are the terms of an agent's passages behind a number, which are
// arguments. The inner LIMIT leaves the planner no way but one row after the other,
// newest first, so that it can stop when it has enough.
func termsBehind(agent, number int) string {
	return fmt.Sprintf(`(SELECT n, seq FROM passages WHERE agent = $%d AND seq > $%d) AS recent
		CROSS JOIN LATERAL (SELECT terms FROM passage_index WHERE n = recent.n LIMIT 1) AS found WHERE terms @@ $1::tsquery`, agent, number)
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
	// The index gives all rows with a word and knows nothing of newest, so that a
	// word of every second of 100,000 passages would be 50,000 rows to fetch.
	common: &commonWords{
		sample: "SELECT count(*) FROM " + termsBehind(2, 3),
		ranked: "WITH newest AS MATERIALIZED (SELECT n, terms FROM " + termsBehind(4, 5) + ` ORDER BY seq DESC LIMIT $3)
			SELECT n FROM newest WHERE (SELECT count(*) FROM newest) >= $3 ORDER BY ts_rank(terms, $1::tsquery, 1) DESC, n DESC LIMIT $2`,
		newest: "WITH newest AS MATERIALIZED (SELECT n FROM " + termsBehind(3, 4) + ` ORDER BY seq DESC LIMIT $2)
			SELECT n FROM newest WHERE (SELECT count(*) FROM newest) >= $2`,
	},
}

// candidates returns the passages of which the best are chosen: the pool best
// among the newest that match, or the pool newest.
func (t *tx) candidates(agent bridge.AgentID, query string, pool int, ranked bool) ([]bridge.Passage, error) {
	const find = "SELECT " + passageColumns + " FROM passages WHERE n IN ("
	args, need, index := []any{query, pool}, pool, t.index.newest
	if ranked {
		args, need, index = append(args, bridge.SearchNewest), bridge.SearchNewest, t.index.ranked
	}
	if behind, err := t.walkBehind(agent, query, need); err != nil {
		return nil, err
	} else if behind >= 0 {
		walk := t.index.common.newest
		if ranked {
			walk = t.index.common.ranked
		}
		if found, err := selectAll(t, scanPassage, find+walk+")", append(args, agent, behind)...); err != nil || len(found) > 0 {
			return found, err
		}
	}
	return selectAll(t, scanPassage, find+index+")", args...)
}

// walkBehind guesses from an agent's newest passages how far back a walk has to
// go to find as many as needed, and returns the number behind which those
// passages are, or -1 when the index is the better way.
func (t *tx) walkBehind(agent bridge.AgentID, query string, need int) (int64, error) {
	if t.index.common == nil {
		return -1, nil
	}
	last, err := selectOne(t, scanInt, "SELECT coalesce(max(seq), 0) FROM passages WHERE agent = $1", agent)
	if err != nil || last < int64(often*need) {
		return -1, err
	}
	n, err := selectOne(t, scanInt, t.index.common.sample, query, agent, last-sampled)
	if err != nil || n*last < int64(often*need*sampled) {
		return -1, err
	}
	depth := int64(need*sampled) * 5 / (4 * n)
	if depth > walked {
		return -1, nil
	}
	return max(last-depth, 0), nil
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
	candidates, err := t.candidates(q.Agent, t.index.query(terms), max(bridge.SearchPool, query.Limit), len(query.Terms) > 0)
	return query.Best(candidates), err
}
