package sim

import (
	"testing"
	"time"
)

func TestAgenda(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	var a agenda
	var got string
	for _, e := range []struct {
		word string
		wait time.Duration
		late bool
	}{{"d", 3, false}, {"b", 2, false}, {"c", 2, true}, {"a", 1, true}, {"e", 4, false}} {
		a.add(at.Add(e.wait), e.late, func() { got += e.word })
	}
	if next, ok := a.next(); !ok || !next.Equal(at.Add(1)) || !a.late() {
		t.Errorf("next %s, %v; late %v", next, ok, a.late())
	}
	a.take()()
	for _, do := range a.takeLate() {
		do()
	}
	if a.late() {
		t.Error("something late is left")
	}
	for _, ok := a.next(); ok; _, ok = a.next() {
		a.take()()
	}
	if got != "acbde" {
		t.Errorf("happened: %q", got)
	}
}
