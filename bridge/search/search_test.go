package search_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"drawbridge/bridge"
	"drawbridge/bridge/search"
)

func TestWords(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 64)
	for text, want := range map[string][]string{
		"":                        nil,
		"%_*\"'\\ \t\n--":         nil,
		"The cat, the CAT":        {"the", "cat", "the", "cat"},
		"github.com/me/my-app":    {"github", "com", "me", "my", "app"},
		"snake_case v1.2":         {"snake", "case", "v1", "2"},
		"Ärger é e\u0301 İ":       {"arger", "e", "e", "i"},
		"Straße ΣΊΣΥΦΟΣ":          {"strasse", "σισυφοσ"},
		"ＦＵＬＬ ﬁne ①":              {"full", "fine", "1"},
		"東京都":                     {"東", "東京", "京", "京都", "都"},
		"AI東京2":                   {"ai", "東", "東京", "京", "2"},
		"サーバー":                    {"サ", "サー", "ー", "ーバ", "バ", "バー", "ー"},
		"\u30ab\u3099":            {"ガ"},
		"हिन्दी":                  {"हिन्दी"},
		"العَرَبِيَّة":            {"العربية"},
		"서울에서 회의":                 {"서울에서", "회의"},
		"🎉🎉x":                     {"🎉", "🎉", "x"},
		"co\u00adop na\u200cme":   {"coop", "name"},
		long + "yz":               {long},
		"a\x00b\xffc\ufffdd":      {"a", "b", "c", "d"},
		"½":                       {"1", "2"},
		"C++ and C# cost 5 €":     {"c", "and", "c", "cost", "5", "€"},
		"❤\ufe0f":                 {"❤"},
		"\u202eevil\u202c bidi":   {"evil", "bidi"},
		"don't l'eau":             {"don", "t", "l", "eau"},
		"ก\u0e39":                 {"ก", "ก\u0e39", "\u0e39"},
		"\ufdfa is one character": {"صلى", "الله", "عليه", "وسلم", "is", "one", "character"},
	} {
		if diff := cmp.Diff(want, search.Words(text)); diff != "" {
			t.Errorf("words of %q (-want +got):\n%s", text, diff)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := search.Parse(bridge.PassageQuery{Text: "deploy de deploy 1200 東京都 東 서울 ein x1", Limit: 3})
	if err != nil {
		t.Fatal(err)
	}
	want := []search.Term{{"deploy", true}, {"de", false}, {"1200", false}, {"東京", false}, {"京都", false}, {"東", false}, {"서울", true}, {"ein", true}, {"x1", false}}
	if diff := cmp.Diff(want, got.Terms); diff != "" || got.Never || got.Limit != 3 {
		t.Errorf("limit %d, never %v, terms (-want +got):\n%s", got.Limit, got.Never, diff)
	}
	for text, never := range map[string]bool{"": false, " \n": false, "%": true, "x": false} {
		if got, err := search.Parse(bridge.PassageQuery{Text: text}); err != nil || got.Never != never || got.Limit != bridge.DefaultPassages {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	same := strings.Repeat("word ", 10*search.MaxTerms)
	if _, err := search.Parse(bridge.PassageQuery{Text: same}); err != nil {
		t.Errorf("one word many times: %v", err)
	}
}

func TestBest(t *testing.T) {
	t.Parallel()
	texts := []string{1: "tea", 2: "tea and tea", 3: "teapot", 4: strings.Repeat("long ", 500) + "tea", 5: "tea", 6: "coffee"}
	var all []bridge.Passage
	for seq, text := range texts {
		all = append(all, bridge.Passage{Agent: "agt_1", Seq: int64(seq), Content: text, Tags: []string{"drink"}})
	}
	all = append(all, bridge.Passage{Agent: "agt_2", Seq: 9, Content: "tea tea tea", Tags: []string{"drink"}})
	for name, tt := range map[string]struct {
		query bridge.PassageQuery
		want  []int64
	}{
		"often, short, whole, new": {bridge.PassageQuery{Text: "tea"}, []int64{2, 5, 1, 3, 4}},
		"limited":                  {bridge.PassageQuery{Text: "tea", Limit: 2}, []int64{2, 5}},
		"all":                      {bridge.PassageQuery{}, []int64{6, 5, 4, 3, 2, 1, 0}},
		"tag":                      {bridge.PassageQuery{Tags: []string{"drink"}, Limit: 1}, []int64{6}},
		"another tag":              {bridge.PassageQuery{Text: "tea", Tags: []string{"drink", "hot"}}, nil},
	} {
		tt.query.Agent = "agt_1"
		q, err := search.Parse(tt.query)
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for _, p := range q.Best(all) {
			got = append(got, p.Seq)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

func TestIndexTermsAreTheAgents(t *testing.T) {
	t.Parallel()
	mine := search.IndexTerms(bridge.Passage{Agent: "agt_1", Content: "one two", Tags: []string{"one"}})
	theirs := search.IndexTerms(bridge.Passage{Agent: "agt_2", Content: "one two", Tags: []string{"one"}})
	seen := map[string]bool{}
	for _, term := range append(mine, theirs...) {
		if seen[term] {
			t.Errorf("%q stands for two things", term)
		}
		seen[term] = true
	}
	if len(seen) != 6 {
		t.Errorf("%d terms, want 6", len(seen))
	}
}

func TestQuoted(t *testing.T) {
	t.Parallel()
	terms := []search.Term{{`a"b`, true}, {`c'd\`, false}}
	if got, want := search.FTS5(terms), `"a""b"* AND "c'd\"`; got != want {
		t.Errorf("FTS5 %s, want %s", got, want)
	}
	if got, want := search.TSQuery(terms), `'a"b':* & 'c''d\\'`; got != want {
		t.Errorf("tsquery %s, want %s", got, want)
	}
	if got, want := search.TSVector([]string{"x'", "x'"}), `'x''':1,2 `; got != want {
		t.Errorf("tsvector %s, want %s", got, want)
	}
	many := search.TSVector(slices.Repeat([]string{"x"}, 1000))
	if strings.Count(many, ",") != 254 {
		t.Errorf("%d positions, want 255", strings.Count(many, ",")+1)
	}
}

var indexable = regexp.MustCompile(`^[a-z0-9\x{80}-\x{10ffff}]+$`)

// FuzzWords: no word can be taken for syntax or be cut further by an index, and
// every text is found by its own words, in upper case too.
func FuzzWords(f *testing.F) {
	for _, seed := range []string{"The cat", "東京都", "\xff\x00", "e\u0301", "ﷺ", "İstanbul ßß", "🎉\u200d🎉", "\u0345\u0345", "ǅ", "ก\u0e39"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		words := search.Words(text)
		for _, w := range words {
			if !indexable.MatchString(w) || !utf8.ValidString(w) {
				t.Fatalf("%q has the word %q", text, w)
			}
		}
		q, err := search.Parse(bridge.PassageQuery{Agent: "a", Text: text, Limit: 1})
		if err != nil {
			return // too many words
		}
		p := bridge.Passage{Agent: "a", Content: text}
		if len(words) > 0 && len(q.Best([]bridge.Passage{p})) != 1 {
			t.Fatalf("%q is not found by itself; terms %+v, words %q", text, q.Terms, words)
		}
		if len(words) == 0 != (len(q.Terms) == 0) {
			t.Fatalf("%q has the words %q and the terms %+v", text, words, q.Terms)
		}
	})
}
