package stores

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"drawbridge/bridge"
	"drawbridge/bridge/search"
)

func block(agent bridge.AgentID, label string, version int) bridge.Block {
	return bridge.Block{Agent: agent, Label: label, Version: version, Content: fmt.Sprintf("%s of %s, take %d", label, agent, version), UpdatedAt: at(time.Duration(version) * time.Second)}
}

func testBlocks(t *testing.T, open Open) {
	s := open(t)
	noZeroField(t, block("agt_1", "mood", 1))
	put := func(b bridge.Block) {
		mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.PutBlock(b) })
	}
	put(block("agt_1", "mood", 1))
	put(block("agt_1", "Zeal", 1))
	put(block("agt_1", "mood", 2))
	put(block("agt_2", "mood", 1))
	blocks := func(agent bridge.AgentID) []bridge.Block {
		return read(t, s, func(tx *bridge.Scene) ([]bridge.Block, error) { return tx.Blocks(agent) })
	}
	versions := func(label string, limit int) []bridge.Block {
		return read(t, s, func(tx *bridge.Scene) ([]bridge.Block, error) { return tx.BlockVersions("agt_1", label, limit) })
	}
	get := func(agent bridge.AgentID, label string) bridge.Block {
		return read(t, s, func(tx *bridge.Scene) (bridge.Block, error) { return tx.Block(agent, label) })
	}
	equal(t, "blocks by label", blocks("agt_1"), []bridge.Block{block("agt_1", "Zeal", 1), block("agt_1", "mood", 2)})
	equal(t, "blocks of another", blocks("agt_2"), []bridge.Block{block("agt_2", "mood", 1)})
	equal(t, "blocks of nobody", len(blocks("agt_none")), 0)
	equal(t, "one block", get("agt_1", "mood"), block("agt_1", "mood", 2))
	equal(t, "its versions", versions("mood", 0), []bridge.Block{block("agt_1", "mood", 2), block("agt_1", "mood", 1)})
	equal(t, "the newest version", versions("mood", 1), []bridge.Block{block("agt_1", "mood", 2)})
	equal(t, "versions of no block", len(versions("none", 0)), 0)

	for what, b := range map[string]bridge.Block{"the same version": block("agt_1", "mood", 2), "an older one": block("agt_1", "mood", 1),
		"one too far": block("agt_1", "mood", 4), "one of a block that is not there": block("agt_1", "new", 2), "none": block("agt_1", "new", 0)} {
		mustUpdate(t, s, func(tx *bridge.Scene) error {
			if err := tx.PutBlock(b); errors.Is(err, bridge.ErrLacking) {
				return err
			} else if bridge.KindOf(err) != bridge.Conflict {
				t.Errorf("put %s: %v, want a Conflict", what, err)
			}
			return second(tx.Blocks("agt_1")) // the transaction goes on
		})
	}
	equal(t, "blocks after the conflicts", blocks("agt_1"), []bridge.Block{block("agt_1", "Zeal", 1), block("agt_1", "mood", 2)})

	mustUpdate(t, s, func(tx *bridge.Scene) error {
		for v := 3; v <= bridge.KeptVersions+2; v++ {
			if err := tx.PutBlock(block("agt_1", "mood", v)); err != nil {
				return err
			}
		}
		return nil
	})
	kept := versions("mood", 2*bridge.KeptVersions)
	equal(t, "versions that are kept", len(kept), bridge.KeptVersions)
	equal(t, "the oldest that is kept", kept[len(kept)-1], block("agt_1", "mood", 3))
}

// passages inserts texts of one agent, each with the tags behind "#", and returns their numbers.
func passages(t *testing.T, s bridge.Store, agent bridge.AgentID, texts ...string) {
	t.Helper()
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		for i, text := range texts {
			p := passage(agent, i+1, text)
			seq, err := tx.InsertPassage(p)
			if err != nil {
				return err
			}
			if seq != p.Seq {
				return fmt.Errorf("passage %d of %s has number %d", i+1, agent, seq)
			}
		}
		return nil
	})
}

func passage(agent bridge.AgentID, n int, text string) bridge.Passage {
	parts := strings.Split(text, "#")
	return bridge.Passage{ID: bridge.PassageID(fmt.Sprintf("psg_%s_%04d", agent, n)), Agent: agent, Seq: int64(n), Content: parts[0], Tags: parts[1:], CreatedAt: at(time.Duration(n) * time.Second)}
}

func testPassages(t *testing.T, open Open) {
	s := open(t)
	const odd = "50% of 'us' \"said\" _x_ -- \\ \u202e🎉\nß"
	want := passage("agt_1", 1, odd+"#a tag#'; DROP TABLE passages; --#日本")
	noZeroField(t, want)
	passages(t, s, "agt_1", odd+"#a tag#'; DROP TABLE passages; --#日本", "no tags")
	passages(t, s, "agt_2", "another's")
	find := func(q bridge.PassageQuery) []bridge.Passage {
		return read(t, s, func(tx *bridge.Scene) ([]bridge.Passage, error) { return tx.SearchPassages(q) })
	}
	plain := passage("agt_1", 2, "no tags")
	got := find(bridge.PassageQuery{Agent: "agt_1"})
	if len(got) == 2 {
		plain.Tags = got[0].Tags // no tags may be nil or empty
	}
	equal(t, "all, newest first", got, []bridge.Passage{plain, want})
	equal(t, "the newest alone", find(bridge.PassageQuery{Agent: "agt_1", Limit: 1}), []bridge.Passage{plain})
	equal(t, "of nobody", len(find(bridge.PassageQuery{Agent: "agt_none"})), 0)
	many := make([]string, 15)
	for i := range many {
		many[i] = fmt.Sprint("number ", i)
	}
	passages(t, s, "agt_3", many...)
	equal(t, "no limit", len(find(bridge.PassageQuery{Agent: "agt_3"})), bridge.DefaultPassages)
	equal(t, "no limit, with a word", len(find(bridge.PassageQuery{Agent: "agt_3", Text: "number"})), bridge.DefaultPassages)
	equal(t, "a larger limit", len(find(bridge.PassageQuery{Agent: "agt_3", Text: "number", Limit: 100})), 15)
	err := s.View(t.Context(), func(tx *bridge.Scene) error {
		_, err := tx.SearchPassages(bridge.PassageQuery{Agent: "agt_1", Text: strings.Join(numbered(search.MaxTerms+1), " ")})
		return err
	})
	if bridge.KindOf(err) != bridge.Invalid {
		t.Errorf("a query of too many words: %v, want Invalid", err)
	}
	if err := s.Update(t.Context(), func(tx *bridge.Scene) error { return second(tx.InsertPassage(want)) }); err == nil {
		t.Error("the same id was taken twice")
	}
}

func numbered(n int) []string {
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprint("word", i)
	}
	return words
}

// corpus is one agent's memory; searches name passages by their place in it, from 1.
var corpus = []string{
	1:  "The customer prefers e-mail.#customer",
	2:  "The customer prefers the telephone; the customer said so twice, the customer insists.#customer#contact",
	3:  "Deployment of the staging server failed on Monday.#ops",
	4:  "deploy again, deploy again",
	5:  "Ärger mit der Straße in Zürich",
	6:  "ZURICH office, Strasse 12",
	7:  "東京都庁の会議は月曜日です",
	8:  "京都へ行く",
	9:  "ลูกค้าต้องการใบแจ้งหนี้",
	10: "서울에서 회의가 있습니다",
	11: "Заказ №5 для Алёны",
	12: "العَرَبِيَّة لغة جميلة",
	13: "party 🎉 on Friday",
	14: "100% of the budget_2026 is spent * OR 1=1",
	15: "version 1200 and version 12",
	16: "हिन्दी में बात",
	17: "ＦＵＬＬ　ｗｉｄｔｈ ﬁne",
	18: "identical words",
	19: "identical words",
	20: "co\u00adoperate with na\u200cme",
}

var searches = []struct {
	why, text string
	tags      []string
	want      []int
}{
	{"more often is better, although longer", "customer", nil, []int{2, 1}},
	{"every word must be there", "customer telephone", nil, []int{2}},
	{"a word that is nowhere", "customer fax", nil, nil},
	{"a beginning finds the word, the word itself is better", "deploy", nil, []int{4, 3}},
	{"two letters find themselves alone", "de", nil, nil},
	{"the middle of a word finds nothing", "ployment", nil, nil},
	{"case and accents", "ARGER", nil, []int{5}},
	{"accents in the query", "zürich", nil, []int{6, 5}},
	{"sharp s", "strasse zurich", nil, []int{6, 5}},
	{"a part of a run of Han", "京都", nil, []int{8, 7}},
	{"one character", "会", nil, []int{7}},
	{"characters that are not neighbors", "東庁", nil, nil},
	{"Thai", "ลูกค้า", nil, []int{9}},
	{"Korean with its particle", "서울", nil, []int{10}},
	{"Cyrillic", "ален", nil, []int{11}},
	{"Arabic without vowels", "العربية", nil, []int{12}},
	{"a Devanagari vowel is no accent", "हनद", nil, nil},
	{"Devanagari", "हिन्दी", nil, []int{16}},
	{"an emoji", "🎉", nil, []int{13}},
	{"full width and ligatures", "full fine", nil, []int{17}},
	{"full width in the query", "ｐａｒｔｙ", nil, []int{13}},
	{"a number is itself alone, shorter is better", "12", nil, []int{6, 15}},
	{"a longer number too", "120", nil, nil},
	{"equals: the newest first", "identical", nil, []int{19, 18}},
	{"soft hyphens and joiners are not there", "cooperate name", nil, []int{20}},
	{"a tag alone, newest first", "", []string{"customer"}, []int{2, 1}},
	{"two tags", "", []string{"customer", "contact"}, []int{2}},
	{"a tag is no word", "ops", nil, nil},
	{"a word is no tag", "", []string{"telephone"}, nil},
	{"a tag in another case", "", []string{"Customer"}, nil},
	{"a tag and a word", "customer", []string{"contact"}, []int{2}},
	{"a wildcard of LIKE", "%", nil, nil},
	{"a wildcard within", "cust%mer", nil, nil},
	{"an underscore cuts", "budget_2026", nil, []int{14}},
	{"a star finds nothing more", "*", nil, nil},
	{"a star behind a word", "de*", nil, nil},
	{"OR is a word", "customer OR budget", nil, nil},
	{"OR is found", "or", nil, []int{14}},
	{"NOT and NEAR are words", "customer NOT telephone NEAR(office)", nil, nil},
	{"a column", "terms:customer", nil, nil},
	{"tsquery", "customer | telephone", nil, []int{2}},
	{"negation", "!telephone", nil, []int{2}},
	{"quotes that do not end", `"customer 'tele`, nil, []int{2}},
	{"backslashes", `\customer\ telephone\`, nil, []int{2}},
	{"an injection", "'); DROP TABLE passages; --", nil, nil},
	{"NUL and bad bytes", "customer\x00telephone\xff", nil, []int{2}},
	{"braces", "{customer} ^telephone", nil, []int{2}},
	{"blanks alone ask for all", " \t\n", nil, []int{20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}},
}

func testSearch(t *testing.T, open Open) {
	s := open(t)
	passages(t, s, "agt_2", "The customer of another agent has a telephone 🎉 京都#customer", "deploy")
	passages(t, s, "agt_1", corpus[1:]...)
	passages(t, s, "agt_3", corpus[1:]...)
	for _, tt := range searches {
		got := read(t, s, func(tx *bridge.Scene) ([]bridge.Passage, error) {
			return tx.SearchPassages(bridge.PassageQuery{Agent: "agt_1", Text: tt.text, Tags: tt.tags, Limit: 50})
		})
		var places []int
		for _, p := range got {
			places = append(places, int(p.Seq))
			if p.Agent != "agt_1" {
				t.Errorf("%s: a passage of %s", tt.why, p.Agent)
			}
		}
		if !slices.Equal(places, tt.want) {
			t.Errorf("%s: search for %q %q found %v, want %v", tt.why, tt.text, tt.tags, places, tt.want)
		}
	}
}

// fragments are what random texts are made of: words that begin alike, scripts
// with and without blanks, marks, and what is syntax to somebody.
var fragments = []string{"a", "ab", "abc", "abcd", "ABC", "12", "120", " ", " ", " ", "-", "_", "%", "*", "\"", "'", "\\", ":", "&", "|", "!", "(", ")", "\n", ",",
	"é", "e\u0301", "ß", "SS", "東", "京", "都", "カ", "ー", "\u3099", "ก", "ู", "ह", "ि", "한", "한글", "🎉", "\u200d", "\u00ad", "\ufdfa", "½", "\u0345", "İ", "ǆ", "ﬁ", "ａ", "٣", "\ufffd", "AND", "NOT"}

var randomTexts = rapid.Custom(func(t *rapid.T) string {
	var b strings.Builder
	for range dice.Draw(t, "fragments") % 12 {
		b.WriteString(fragments[dice.Draw(t, "fragment")%len(fragments)])
	}
	return b.String()
})

// testSearchModel compares the store's index with package search alone, which
// looks at every passage. Each play has agents of its own.
func testSearchModel(t *testing.T, open Open) {
	s := open(t)
	plays := 0
	rapid.Check(t, func(rt *rapid.T) {
		plays++
		agents := []bridge.AgentID{bridge.AgentID(fmt.Sprint("agt_one_", plays)), bridge.AgentID(fmt.Sprint("agt_two_", plays))}
		var all []bridge.Passage
		for i := range 1 + dice.Draw(rt, "passages")%12 {
			p := passage(agents[dice.Draw(rt, "agent")%2], i, "")
			p.Content, p.Tags = randomTexts.Draw(rt, "text"), []string{}
			for range dice.Draw(rt, "tags") % 3 {
				p.Tags = append(p.Tags, randomTexts.Draw(rt, "tag"))
			}
			all = append(all, p)
		}
		query := bridge.PassageQuery{Agent: agents[0], Text: randomTexts.Draw(rt, "query"), Limit: 1 + dice.Draw(rt, "limit")%5}
		if p := all[dice.Draw(rt, "of")%len(all)]; len(p.Tags) > 0 && dice.Draw(rt, "tagged")%2 == 0 {
			query.Tags = p.Tags[:1]
		}
		err := s.Update(bridge.Forgettable(t.Context()), func(tx *bridge.Scene) (err error) {
			for i := range all {
				if all[i].Seq, err = tx.InsertPassage(all[i]); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			err = s.View(t.Context(), func(tx *bridge.Scene) error { return compareSearch(tx, all, query) })
		}
		if err != nil {
			rt.Fatal(err)
		}
	})
}

func compareSearch(tx *bridge.Scene, all []bridge.Passage, query bridge.PassageQuery) error {
	parsed, err := search.Parse(query)
	if err != nil {
		return err
	}
	got, err := tx.SearchPassages(query)
	if err != nil {
		return fmt.Errorf("search %q: %w", query.Text, err)
	}
	if diff := cmp.Diff(parsed.Best(all), got); diff != "" {
		return fmt.Errorf("search %+v (-want +got):\n%s", query, diff)
	}
	return nil
}
