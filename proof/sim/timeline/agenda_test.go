package timeline

import (
	"testing"
	"time"
)

func TestAgenda(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	var a Agenda
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
