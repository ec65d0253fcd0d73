package parser

import (
	"bytes"
	"fmt"
	"strings"
)

// NearMiss is a line that looks like a command and is not one, told to the
// agent so that it can write the line again.
type NearMiss struct {
	// Line is the 1-based number of the line in the turn's text.
	Line int

	// Text is the line for display: at most 200 bytes, then an ellipsis, with
	// everything that is not printable, and bytes that are not UTF-8, escaped.
	// It is still untrusted text and must not start a line of a new turn.
	Text string

	// Reason is a sentence that names the line and says what to do. It holds
	// nothing of the line but single words of plain ASCII.
	Reason string

	// Code is one of the Code constants, stable for programs.
	Code string
}

// The codes of a [NearMiss]. [CodeContinued] alone stands for no lost command.
const (
	CodeFenced       = "fenced"           // inside a code fence
	CodeIndented     = "indented"         // behind blanks
	CodeQuoted       = "quoted"           // in a block quote
	CodeListItem     = "list_item"        // behind a bullet or a number
	CodeHeading      = "heading"          // behind number signs
	CodeEmphasis     = "emphasis"         // in bold, italics or strikethrough
	CodeCodeSpan     = "code_span"        // in inline code
	CodeInvisible    = "invisible_prefix" // behind something that a reader does not see
	CodeLowerCase    = "lower_case"       // keyword not in capitals
	CodeSpacing      = "keyword_spacing"  // blank between keyword and colon
	CodeSpelling     = "keyword_spelling" // keyword with an s, a hyphen or a blank too many
	CodeColon        = "keyword_colon"    // another character that looks like a colon
	CodeMalformed    = "malformed"        // not made of the parts that the verb needs
	CodeMissingKey   = "missing_key"      // one of the required keys is not there
	CodeEmptyValue   = "empty_value"      // a required value is empty
	CodeUnknownKey   = "unknown_key"      // a key that the verb does not have
	CodeRepeatedKey  = "repeated_key"     // a key that could be read from two places
	CodeBadCharacter = "bad_character"    // control, bidi, tag or lost character; an id beyond ASCII
	CodeBadRepo      = "bad_repo"         // a character that no repository URL has
	CodeBadTime      = "bad_time"         // REMIND with a time that cannot be read
	CodeBadValue     = "bad_value"        // WEBHOOK_RESULT with a value that is no word
	CodeTooLong      = "too_long"         // more than 64 KiB
	CodeNotEnabled   = "not_enabled"      // a verb that is off
	CodeContinued    = "continued"        // text directly under a SUBAGENT command
)

// fault is why a line is not a command, or the zero value. What and fix are the
// two halves of the reason.
type fault struct{ code, what, fix string }

// decorationFault says what stands before the keyword, for each code that
// decoration returns.
func decorationFault(code string) fault {
	switch code {
	case CodeIndented:
		return fault{code, "is indented", "start it in the first column to run it"}
	case CodeQuoted:
		return fault{code, "is a quotation", "write it without the > to run it"}
	case CodeListItem:
		return fault{code, "is a list item", "write it on a line of its own without the list marker to run it"}
	case CodeHeading:
		return fault{code, "is a heading", "write it without the # to run it"}
	case CodeEmphasis:
		return fault{code, "begins with emphasis", "write it without *, _ or ~ to run it"}
	case CodeCodeSpan:
		return fault{code, "begins with a code span", "write it without the backticks to run it"}
	}
	return fault{code, "begins with an invisible or unreadable character", "start it with the keyword to run it"}
}

func (p *Parser) miss(line []byte, f fault) {
	if p.h.NearMiss == nil {
		return
	}
	outcome := ", so it was not run; "
	if f.code == CodeContinued {
		outcome = "; "
	}
	p.h.NearMiss(NearMiss{
		Line:   p.line,
		Text:   show(line),
		Reason: fmt.Sprintf("line %d %s%s%s", p.line, f.what, outcome, f.fix),
		Code:   f.code,
	})
}

func continuedAfter(line int) fault {
	return fault{CodeContinued,
		fmt.Sprintf("is not part of the prompt of the SUBAGENT on line %d, which ends with its line", line),
		"if it belongs to the task, write the whole prompt on one line, otherwise ignore this"}
}

// inside reports a line within a fence that would be a command outside. A fence
// in a list item is indented, so blanks do not count here.
func (p *Parser) inside(line []byte) {
	_, n := indent(line)
	if v := keyword(line[n:]); v != "" && p.enabled(v) {
		p.miss(line, fault{CodeFenced,
			fmt.Sprintf("is inside the code fence that opens on line %d", p.fence.from),
			"write it outside the fence to run it"})
	}
}

// decorated reports a line that misses being a command by its beginning, and
// says whether it did.
func (p *Parser) decorated(line []byte) bool {
	code, n := decoration(line)
	if code == "" {
		verb, f := looseKeyword(line)
		return p.missed(verb, line, f)
	}
	if code == CodeEmphasis || code == CodeCodeSpan {
		return p.missed(closedKeyword(line[n:]), line, decorationFault(code))
	}
	return p.missed(keyword(line[n:]), line, decorationFault(code))
}

// missed reports the line if verb is one that could have run.
func (p *Parser) missed(verb Verb, line []byte, f fault) bool {
	if verb == "" || !p.enabled(verb) {
		return false
	}
	p.miss(line, f)
	return true
}

// decoration returns how many bytes of markup and invisible characters a line
// begins with, and the code for it. Blanks give the code only if there is
// nothing else; otherwise the first decoration does.
func decoration(line []byte) (code string, n int) {
	for n < len(line) {
		kind, size := ornament(line[n:])
		if size == 0 {
			break
		}
		if code == "" || code == CodeIndented {
			code = kind
		}
		n += size
	}
	return code, n
}

// ornament returns the decoration at the start of s.
func ornament(s []byte) (code string, size int) {
	switch c := s[0]; c {
	case ' ', '\t':
		return CodeIndented, 1
	case '>':
		return CodeQuoted, 1
	case '`':
		return CodeCodeSpan, 1
	case '#':
		if n := run(s, '#'); n <= 6 && n < len(s) && isBlank(s[n]) {
			return CodeHeading, n
		}
		return "", 0
	case '-', '+', '*', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		if n := listMarker(s); n > 0 {
			return CodeListItem, n + checkbox(s[n:])
		}
		if c != '*' {
			return "", 0
		}
		return CodeEmphasis, 1
	case '_', '~':
		return CodeEmphasis, 1
	}
	if bytes.HasPrefix(s, []byte("•")) {
		return CodeListItem, len("•")
	}
	return CodeInvisible, invisible(s)
}

// checkbox returns the length of the box of a task list item, as in "- [ ] x".
func checkbox(s []byte) int {
	if len(s) > 4 && isBlank(s[0]) && s[1] == '[' && s[3] == ']' && isBlank(s[4]) &&
		(s[2] == ' ' || lower(s[2]) == 'x') {
		return 4
	}
	return 0
}

// closedKeyword is keyword for a line behind emphasis, which may end between
// the keyword and its colon, as in "**SUBAGENT**:".
func closedKeyword(s []byte) Verb {
	verb := verbByLetter(s)
	n := len(verb)
	if n == 0 || len(s) <= n || string(s[:n]) != string(verb) {
		return ""
	}
	if rest := bytes.TrimLeft(s[n:], "*_~`"); len(rest) == 0 || rest[0] != ':' {
		return ""
	}
	return verb
}

// verbByLetter guesses the verb from the first letter in any case.
func verbByLetter(s []byte) Verb {
	if len(s) == 0 {
		return ""
	}
	switch s[0] | 0x20 {
	case 's':
		return Subagent
	case 'l':
		return LocalAction
	case 'r':
		return Remind
	case 'w':
		return WebhookResult
	}
	return ""
}

// looseKeyword recognizes a keyword in the first column that is not written
// exactly: in another case, or, in capitals, with another separator, a plural s,
// a blank before the colon or a full-width colon. "Local action:" in running
// text is none.
func looseKeyword(line []byte) (Verb, fault) {
	verb := verbByLetter(line)
	if verb == "" {
		return "", fault{}
	}
	word := untilColon(line)
	bare := bytes.TrimRight(word, " \t")
	if !sameLetters(bare, verb) {
		return "", fault{}
	}
	fix := fmt.Sprintf("begin it with %s: to run it", verb)
	switch {
	case string(bare) == string(verb) && len(bare) < len(word):
		return verb, fault{CodeSpacing, "has a blank before the colon", fix}
	case string(bare) == string(verb):
		return verb, fault{CodeColon, "has another character in place of the colon", fix}
	case fold(bare, string(verb)):
		return verb, fault{CodeLowerCase, fmt.Sprintf("does not have %s in capitals", verb), fix}
	case bytes.Equal(bare, bytes.ToUpper(bare)):
		return verb, fault{CodeSpelling, fmt.Sprintf("does not spell %s exactly", verb), fix}
	}
	return "", fault{}
}

// untilColon returns what stands before the first colon of a line, an ASCII or a
// full-width one, or nil if that is more than a short run of letters,
// separators and blanks.
func untilColon(line []byte) []byte {
	for i, c := range line[:min(len(line), 24)] {
		switch {
		case c == ':' || bytes.HasPrefix(line[i:], []byte("：")):
			return line[:i]
		case !isAlnum(c) && c != '_' && c != '-' && !isBlank(c):
			return nil
		}
	}
	return nil
}

// sameLetters compares a word with a verb in any case, with a plural s allowed
// and with any or no separator between the verb's two words.
func sameLetters(word []byte, verb Verb) bool {
	head, tail, _ := strings.Cut(string(verb), "_")
	if verb == Subagent {
		head, tail = "SUB", "AGENT"
	}
	if len(word) < len(head) || !fold(word[:len(head)], head) {
		return false
	}
	word = word[len(head):]
	if len(word) > 0 && tail != "" && (isBlank(word[0]) || word[0] == '_' || word[0] == '-') {
		word = word[1:]
	}
	if n := len(word); n == len(tail)+1 && lower(word[n-1]) == 's' {
		word = word[:n-1]
	}
	return fold(word, tail)
}
