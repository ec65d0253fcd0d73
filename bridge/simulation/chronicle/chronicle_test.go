package chronicle_test

import (
	"testing"
	"time"

	"drawbridge/bridge/simulation/chronicle"
)

func TestAgenda(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	var a chronicle.Agenda
	var got string
	for _, e := range []struct {
		word string
		wait time.Duration
		late bool
	}{{"d", 3, false}, {"b", 2, false}, {"c", 2, true}, {"a", 1, true}, {"e", 4, false}} {
		a.Add(at.Add(e.wait), e.late, func() { got += e.word })
	}
	if next, ok := a.Next(); !ok || !next.Equal(at.Add(1)) || !a.Late() {
		t.Errorf("next %s, %v; late %v", next, ok, a.Late())
	}
	a.Take()()
	for _, do := range a.TakeLate() {
		do()
	}
	if a.Late() {
		t.Error("something late is left")
	}
	for _, ok := a.Next(); ok; _, ok = a.Next() {
		a.Take()()
	}
	if got != "acbde" {
		t.Errorf("happened: %q", got)
	}
}

func TestTrace(t *testing.T) {
	t.Parallel()
	kept, quiet, other := chronicle.NewTrace(true), chronicle.NewTrace(false), chronicle.NewTrace(false)
	kept.Add(time.Second, []string{"a", "bc"})
	quiet.Add(time.Second, []string{"a", "bc"})
	other.Add(time.Second, []string{"ab", "c"})
	if kept.Hash != quiet.Hash || kept.Hash == other.Hash {
		t.Errorf("hashes %x, %x, %x", kept.Hash, quiet.Hash, other.Hash)
	}
	if len(kept.Lines) != 1 || kept.Lines[0] != "1s a bc" || len(quiet.Lines) != 0 {
		t.Errorf("lines %q and %q", kept.Lines, quiet.Lines)
	}
}
