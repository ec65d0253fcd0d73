package acpagent

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// progress is how far a turn has come, as a model sees it in what it did.
type progress struct {
	// path is a file that outlives the process.
	path   string
	orders []string
	// from is how many orders an earlier process did.
	from int
	// said is what earlier processes said in the turn, and finished the answer of a turn that nothing is left of.
	said, finished string
}

// progressOf returns the orders of a prompt. For one that asks to continue, these are the orders of the turn that an earlier process has not begun.
func (t *play) progressOf(prompt string) progress {
	p := progress{path: t.session.path + ".progress", orders: t.ordersOf(prompt)}
	if mark, continues := markOf(prompt); continues {
		if noted, err := os.ReadFile(p.path); err == nil {
			done, words, _ := strings.Cut(string(noted), "\n")
			p.from, _ = strconv.Atoi(done)
			p.said = words
		}
		prompt, _ = t.session.interrupted(mark)
		p.orders = t.ordersOf(prompt)
		p.from = min(p.from, len(p.orders))
		if p.orders = p.orders[p.from:]; len(p.orders) == 0 {
			_, p.finished = t.session.interrupted(mark)
			p.finished = cmp.Or(p.finished, p.said) // the process may have ended between its last words and the end of the turn
		}
		return p
	}
	p.did(-1, "")
	return p
}

// begins notes an order that is not repeated once it began.
func (p progress) begins(order string, i int, said string) {
	switch word, _, _ := strings.Cut(order, " "); word {
	case "sleep", "hang", "deaf", "exit", "error", "stop":
		p.did(i, said)
	}
}

// did notes that an order is done, and what this process has said so far. A kill leaves the old note or the new one: an empty one would begin the turn again.
func (p progress) did(i int, said string) {
	if os.WriteFile(p.path+".new", []byte(strconv.Itoa(p.from+i+1)+"\n"+p.said+said), 0o600) == nil {
		_ = os.Rename(p.path+".new", p.path)
	}
}

// rehearsedFile is a file in HOME with orders for prompts that have none: a line "at WORDS", and below it what to do at a prompt with these words.
const rehearsedFile = "rehearsed"

func (a *agent) ordersOf(prompt string) []string {
	orders := ordersIn(prompt)
	if len(orders) > 0 {
		return orders
	}
	file, _ := os.ReadFile(filepath.Join(a.home, rehearsedFile)) // without one nothing was rehearsed
	for _, part := range strings.Split("\n"+string(file), "\nat ")[1:] {
		if words, rest, _ := strings.Cut(part, "\n"); strings.Contains(prompt, words) {
			return ordersIn(rest)
		}
	}
	return nil
}

func ordersIn(text string) (orders []string) {
	for line := range strings.Lines(text) {
		if order, found := strings.CutPrefix(strings.TrimRight(line, "\n"), "do: "); found {
			orders = append(orders, order)
		}
	}
	return orders
}

// markOf returns the marker of a prompt, and whether the prompt asks to continue.
func markOf(prompt string) (mark string, continues bool) {
	const begin = "[bridge "
	at := strings.Index(prompt, begin)
	if at < 0 {
		return "", false
	}
	mark, rest, _ := strings.Cut(prompt[at:], "]")
	return mark + "]", strings.HasPrefix(rest, " [continue ")
}

// interrupted is the last prompt with the marker that does not ask to continue, and what was answered since.
func (s *session) interrupted(mark string) (prompt, answer string) {
	text, err := os.ReadFile(s.path)
	if err != nil {
		return "", ""
	}
	for line := range strings.Lines(string(text)) {
		var each said
		if json.Unmarshal([]byte(line), &each) != nil {
			continue
		}
		its, continues := markOf(each.Text)
		switch {
		case each.Role != "user":
			answer = each.Text
		case its == mark && !continues:
			prompt, answer = each.Text, ""
		}
	}
	return prompt, answer
}

// kill ends the process in the first prompts of a turn.
func (t *play) kill(rest string) {
	lines, _ := ReadLog(t.home)
	last, prompts := "", 0
	for _, l := range lines {
		if mark, _ := markOf(l.Text); l.Event == Prompted && l.Session == t.session.id {
			if mark != last || mark == "" {
				last, prompts = mark, 0
			}
			prompts++
		}
	}
	if prompts <= max(1, number(rest)) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}
