//go:build deep

package measure_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestLostCommits plays each kind of step again and again. Each time another one of its commits does not reach PostgreSQL, or is made
// there and its answer is lost. The same is called at the cloud and at the relay, and the same is in the records, as in a play that
// lost nothing.
func TestLostCommits(t *testing.T) {
	t.Parallel()
	for kind, p := range plays {
		for _, recorded := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/recorded %t", kind, recorded), func(t *testing.T) {
				t.Parallel()
				s := newStage(t)
				s.recorded = recorded
				want := s.losingPlay(p, "whole", 0)
				lost := 0
				for n := 1; ; n++ {
					got := s.losingPlay(p, fmt.Sprintf("without%d", n), n)
					if s.proxy.Lost() == lost {
						break
					}
					lost++
					if !maps.Equal(got, want) {
						t.Errorf("without commit %d there is %v; want %v", n, got, want)
					}
				}
				if lost < 3 {
					t.Errorf("only %d commits were lost", lost)
				}
			})
		}
	}
}

// losingPlay plays one kind of step without its nth commit, to the agents' rest, and returns what that called and what it recorded.
func (s *stage) losingPlay(p play, word string, n int) map[string]int {
	s.t.Helper()
	s.forget()
	p.before(s, word)
	before := s.tally()
	s.forget()
	s.losing = true
	s.proxy.LoseCommit(n, s.recorded)
	p.measured(s, word)
	s.rest()
	s.proxy.LoseCommit(0, false)
	s.losing = false
	after := s.tally()
	for k, v := range before {
		if after[k] -= v; after[k] == 0 {
			delete(after, k)
		}
	}
	return after
}

// tally counts what reached the cloud and the relay, and the records by what they are. Events of kind turn are left out: each is a try
// to send, and a try that was not recorded is made again.
func (s *stage) tally() map[string]int {
	s.t.Helper()
	out := map[string]int{"calls of the cloud": s.cloud.Effects(""), "calls of the relay": len(s.relay.Log())}
	c, err := pgx.Connect(s.t.Context(), s.database)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = c.Close(s.t.Context()) }()
	rows, err := c.Query(s.t.Context(), `SELECT 'event ' || kind, count(*) FROM events WHERE kind <> 'turn' GROUP BY 1
		UNION ALL SELECT 'turn ' || state, count(*) FROM turns GROUP BY 1
		UNION ALL SELECT 'command ' || state, count(*) FROM commands GROUP BY 1
		UNION ALL SELECT 'agent ' || state, count(*) FROM agents GROUP BY 1
		UNION ALL SELECT 'work', count(*) FROM work`)
	if err != nil {
		s.t.Fatal(err)
	}
	for rows.Next() {
		var what string
		var n int
		if err := rows.Scan(&what, &n); err != nil {
			s.t.Fatal(err)
		}
		out[what] = n
	}
	if err := rows.Err(); err != nil {
		s.t.Fatal(err)
	}
	return out
}
