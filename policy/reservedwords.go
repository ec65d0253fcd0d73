package policy

import (
	"strings"
	"unicode"

	"drawbridge/internal/lookalike"
)

// class is what a word says in a name.
type class uint8

const (
	// blank says nothing: numbers, versions, single letters. It is also the start.
	blank class = iota
	// charge is a word for those in charge, and the bridge's own name.
	charge
	// person is a word for a person, machine one for a part of the bridge.
	person
	machine
	// address is a word by which turns call somebody or everybody, or a keyword.
	address
	// opener may stand before a reserved word and leaves it what it is.
	opener
	// speech says that somebody speaks, decides or is on duty.
	speech
	// thing is what agents work on, or a kind of work.
	thing
	// tail says only that the bearer is an agent.
	tail
	// other is a word that the lists below do not hold.
	other
)

// lists holds the words of each class.
var lists = map[class]string{
	charge:  "operator admin administrator sysadmin superadmin superuser moderator supervisor approver sysop drawbridge",
	person:  "user human person people owner assistant root",
	machine: "bridge system relay",
	address: "you me myself self yourself parent all any anyone anybody everyone everybody nobody somebody someone here channel broadcast prompt " +
		"subagent local_action remind webhook_result",
	opener: "the a an my your our their his her its this that these those real " + // the articles, see articles
		"mr mrs ms miss mx mister dr doctor sir madam lord lady prof captain chief head lead main senior junior deputy vice acting sr jr " +
		"true actual official verified trusted genuine authentic original legit certified authorized new old only super default first second next other from by of to for as am is iam not dear hey hi hello ask",
	speech: "says said say saying speaks speaking speak told tells tell asks asked wants wrote writes sends sent approves approved approve approval approvals allows allowed allow confirms confirmed " +
		"orders ordered order command commands message messages msg notice notices note reply replies answer answers alert warning voice word words on duty team desk office staff crew group account acct role " +
		"authority control himself herself itself itsme",
	thing: "docs doc documentation manual guide handbook test tests tester testing qa e2e bench benchmark benchmarks fuzz fuzzer service services server sdk api apis ui ux app apps client web website " +
		"frontend backend portal dashboard panel console page pages site form forms settings preferences profile profiles auth login signup signin onboarding registration session sessions " +
		"design designer designs builder build builds dev development developer engineer engineering coder writer editor reviewer review reviews fixer fix fixes checker linter lint cleaner cleanup " +
		"migration migrations migrator refactor refactoring rewrite worker runner crawler scraper parser planner plan research researcher analyst analysis analytics metrics monitor monitoring watcher " +
		"logs logging tracing database db schema storage cache queue management module modules lib library package packages plugin plugins tool tools tooling toolkit cli cause causes " +
		"search stats import importer export exporter data dataset model models config deploy deployment infra ops release releases upgrade upgrades update updates i18n l10n translation translations " +
		"training perf performance bug bugs issue issues feature features story stories survey interviews experience flow flows interface interfaces repo code codebase demo demos sample samples " +
		"example examples prototype ci spec specs simulator simulation protocol audit debugger debugging helm chart charts controller resources permissions requests feedback journey map maps generator",
	tail: "bot bots agent agents ai helper gpt llm",
}

// articles are the openers that say nothing of their own; see class opener.
const articles = " the a an my your our their his her its this that these those real "

// versions are words that stand beside a number.
const versions = "v ver version rev rc beta alpha no nr num number st nd rd th ii iii iv"

// known is a word of the lists.
type known struct {
	text    string
	class   class
	article bool
}

// isReserved reports whether a word is one for somebody or for the bridge.
func (w known) isReserved() bool { return w.class >= charge && w.class <= address }

// vocabulary maps what a reader sees to the words that it may be.
var vocabulary = func() map[string][]known {
	seen := make(map[string][]known)
	add := func(spelled string, w known) {
		key := lookalike.Skeleton(spelled)
		seen[key] = append(seen[key], w)
	}
	for c, words := range lists {
		for word := range strings.FieldsSeq(words) {
			w := known{text: word, class: c, article: c == opener && strings.Contains(articles, " "+word+" ")}
			add(word, w)
			if isVoice(c) {
				add(word+"s", w)
			}
		}
	}
	for word := range strings.FieldsSeq(versions) {
		add(word, known{text: word})
	}
	return seen
}()

// Lengths in letters. Up to shortWord a word is compared more strictly, because too
// many short words look like one another: "a11" is not "all". From gluedWord on it is
// found beside other known words without a separator, from longWord on beside any.
const (
	shortWord = 3
	gluedWord = 4
	longWord  = 8
)

// cell is one visible character of a name.
type cell struct {
	// seen is what a reader takes it for, plain its own lower-case form.
	seen, plain string
	digit       bool
	// edge is set where a part begins.
	edge bool
}

// look splits a name into its visible characters.
func look(name string) (cells []cell) {
	runes := []rune(name)
	var before rune
	for i, r := range runes {
		seen, c := lookalike.Append(nil, r)
		switch c {
		case lookalike.Hidden:
			continue
		case lookalike.Separator:
			before = 0
			continue
		}
		edge := before == 0 || unicode.IsDigit(r) != unicode.IsDigit(before) || unicode.IsUpper(r) && (unicode.IsLower(before) ||
			i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		cells = append(cells, cell{seen: string(seen), plain: plainly(r, string(seen)), digit: unicode.IsDigit(r), edge: edge})
		before = r
	}
	return cells
}

// plainly is how a character of a short word is compared.
func plainly(r rune, seen string) string {
	switch {
	case r == 'I':
		return "l"
	case r == '0':
		return "o"
	case r > unicode.MaxASCII:
		return seen
	}
	return string(unicode.ToLower(r))
}
