package store_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/proof/pg"
	"drawbridge/store"
)

// BenchmarkSearch measures a search in one agent's passages of 40 words each,
// beside another agent's as many, on both databases. Word w<n> stands in about
// one of n+1 passages, only<n> in one.
func BenchmarkSearch(b *testing.B) {
	for _, kind := range []string{"sqlite", "postgres"} {
		for _, size := range []int{1_000, 10_000, 100_000} {
			b.Run(fmt.Sprint(kind, "/", size), func(b *testing.B) {
				path := filepath.Join(b.TempDir(), "drawbridge.db")
				if kind == "postgres" {
					path = pg.Database(b)
				}
				s := open(b, path)
				stored := fillPassages(b, s, size)
				b.Run("store", func(b *testing.B) { b.ReportMetric(stored.Seconds()*1e6/float64(2*size), "µs-a-passage") })
				for name, q := range map[string]bridge.PassageQuery{
					"one":    {Text: "only17 w0"},
					"three":  {Text: "w3 w5 w9"},
					"common": {Text: "w1"},
					"prefix": {Text: "only1"},
					"tag":    {Text: "w9", Tags: []string{"tag3"}},
					"newest": {},
				} {
					b.Run(name, func(b *testing.B) { searchFor(b, s, q) })
				}
			})
		}
	}
}

func searchFor(b *testing.B, s *store.Store, q bridge.PassageQuery) {
	q.Agent = "agt_1"
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		if err := s.View(b.Context(), func(tx *bridge.Scene) error {
			found, err := tx.SearchPassages(q)
			if err == nil && len(found) == 0 {
				err = fmt.Errorf("nothing found")
			}
			return err
		}); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-median")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs-p99")
}

// fillPassages gives two agents size passages each and returns how long it took.
func fillPassages(b *testing.B, s *store.Store, size int) time.Duration {
	b.Helper()
	dice := rand.New(rand.NewPCG(1, 2))
	start := time.Now()
	for from := 0; from < size; from += 500 {
		if err := s.Update(b.Context(), func(tx *bridge.Scene) error {
			for i := from; i < min(from+500, size); i++ {
				for _, agent := range []bridge.AgentID{"agt_1", "agt_2"} {
					p := bridge.Passage{ID: bridge.PassageID(fmt.Sprint("psg_", agent, i)), Agent: agent, Content: benchText(dice, i), Tags: []string{fmt.Sprint("tag", i%10)}}
					if _, err := tx.InsertPassage(p); err != nil {
						return err
					}
				}
			}
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(start)
}

func benchText(dice *rand.Rand, i int) string {
	words := []string{fmt.Sprint("only", i)}
	for n := 0; len(words) < 40; n++ {
		if n < 200 && dice.IntN(n+1) > 0 {
			continue
		}
		if n >= 200 {
			n = 200 + dice.IntN(20_000)
		}
		words = append(words, fmt.Sprint("w", n))
	}
	dice.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
	return strings.Join(words, " ")
}
