package parser_test

import (
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"drawbridge/parser"
)

// reference is a second, slow reading of the same rules: whole text, one line
// after the other, regular expressions. It shares no code with the parser.
type reference struct {
	opts   parser.Options
	res    parser.Result
	number int
	above  int // the SUBAGENT command directly above
	fence  *refFence
}

type refFence struct {
	mark  string
	size  int
	item  int
	close *regexp.Regexp
}

// refMalformed stands for any code of a line that begins with a keyword and
// does not fit its grammar.
const refMalformed = "(malformed)"

const refLimit = 64 << 10

func refParse(text string, opts parser.Options) parser.Result {
	r := &reference{opts: opts, res: parser.Result{Commands: []parser.Command{}, NearMisses: []parser.NearMiss{}}}
	for text != "" {
		line, rest, ended := strings.Cut(text, "\n")
		if ended {
			line = strings.TrimSuffix(line, "\r")
		}
		r.number++
		above := r.above
		r.above = 0
		r.read(line, above)
		text = rest
	}
	return r.res
}

func (r *reference) miss(code string) {
	r.res.NearMisses = append(r.res.NearMisses, parser.NearMiss{Line: r.number, Code: code})
}

func (r *reference) on(verb string) bool {
	return verb == "SUBAGENT" || verb == "LOCAL_ACTION" || verb == "REMIND" && r.opts.Remind ||
		verb == "WEBHOOK_RESULT" && r.opts.WebhookResult
}

func (r *reference) read(line string, above int) {
	long := len(line) > refLimit
	full := line
	if long {
		line = line[:refLimit]
	}
	if r.number == 1 {
		line = strings.TrimPrefix(line, "\ufeff")
		full = strings.TrimPrefix(full, "\ufeff")
	}
	if r.opts.Fenced != parser.FencedRun && r.fenced(line, full, long) {
		return
	}
	if m := refKeyword.FindStringSubmatch(line); m != nil {
		r.command(m[1], line, long)
		return
	}
	if code, verb := refNear(line); code != "" && r.on(verb) {
		r.miss(code)
		return
	}
	if above > 0 && refWord.MatchString(line) && !refFenceLike.MatchString(line) {
		r.miss(parser.CodeContinued)
	}
}

var (
	refKeyword   = regexp.MustCompile(`^(SUBAGENT|LOCAL_ACTION|REMIND|WEBHOOK_RESULT):`)
	refInside    = regexp.MustCompile(`^[ \t]*(SUBAGENT|LOCAL_ACTION|REMIND|WEBHOOK_RESULT):`)
	refWord      = regexp.MustCompile(`[0-9A-Za-z]|[^\x00-\x7f]`)
	refFenceLike = regexp.MustCompile("^[ \t]*(```|~~~)")
	refOpen      = regexp.MustCompile("(?s)^( {0,3}(?:(?:[-*+]|[0-9]{1,9}[.)]) +)?)(?:(`{3,})[^`]*|(~{3,}).*)$")
)

func (r *reference) fenced(line, full string, long bool) bool {
	flat := expand(line)
	if f := r.fence; f != nil && f.item > 0 {
		if width := len(flat) - len(strings.TrimLeft(flat, " ")); width < f.item && strings.Trim(line, " \t") != "" {
			r.fence = nil
		}
	}
	if r.fence != nil {
		if !long && r.fence.close.MatchString(flat) {
			r.fence = nil
		} else if m := refInside.FindStringSubmatch(line); m != nil && r.on(m[1]) {
			r.miss(parser.CodeFenced)
		}
		return true
	}
	m := refOpen.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	f := refFence{mark: (m[2] + m[3])[:1], size: len(m[2] + m[3])}
	if strings.Trim(m[1], " ") != "" {
		if f.item = len(m[1]); f.item > 3 {
			return false
		}
	}
	spaces := strings.Repeat(" ?", f.item+3)
	f.close = regexp.MustCompile("^" + spaces + strings.Repeat(f.mark, f.size) + f.mark + "*[ \t]*$")
	// A backtick beyond the limit shows that a long line was inline code.
	if f.mark == "~" || strings.Count(full, "`") == f.size {
		r.fence = &f
	}
	return true
}

// expand writes the leading blanks as spaces, with tab stops of four.
func expand(line string) string {
	out := ""
	for i, c := range []byte(line) {
		switch c {
		case ' ':
			out += " "
		case '\t':
			out += strings.Repeat(" ", 4-len(out)%4)
		default:
			return out + line[i:]
		}
	}
	return out
}

var refBad = regexp.MustCompile(`[\x00-\x08\x0a-\x1f\x7f-\x9f\x{2028}-\x{202e}\x{2066}-\x{2069}\x{fffd}\x{e0000}-\x{e007f}]`)

func (r *reference) command(verb, line string, long bool) {
	if !r.on(verb) {
		r.miss(parser.CodeNotEnabled)
		return
	}
	if long {
		r.miss(parser.CodeTooLong)
		return
	}
	if !utf8.ValidString(line) || refBad.MatchString(line) {
		r.miss(parser.CodeBadCharacter)
		return
	}
	c := parser.Command{Verb: parser.Verb(verb), Line: r.number, Raw: line}
	if !refFill(&c, line) {
		r.miss(refMalformed)
		return
	}
	if verb == "SUBAGENT" {
		r.above = r.number
	}
	r.res.Commands = append(r.res.Commands, c)
}

var (
	refRepoFirst   = regexp.MustCompile(`^SUBAGENT:[ \t]*(?i:repo)[ \t]*=(.*?),[ \t]*(?i:prompt)[ \t]*=(.*)$`)
	refPromptFirst = regexp.MustCompile(`^SUBAGENT:[ \t]*(?i:prompt)[ \t]*=(.*)$`)
	refRepoPair    = regexp.MustCompile(`,[ \t]*(?i:repo)[ \t]*=`)
	refPromptPair  = regexp.MustCompile(`,[ \t]*(?i:prompt)[ \t]*=`)
	refURL         = regexp.MustCompile(`^[!#$%&()*+\-./0-9:;=?@A-Z\[\]_a-z~]+$`)
	refAction      = regexp.MustCompile(`^[\t -~]+$`)
	refRemind      = regexp.MustCompile(`^REMIND:([^,]*),(.*)$`)
	refShortTime   = regexp.MustCompile(`^([0-9]{1,6}w)?([0-9]{1,6}d)?([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$`)
	refResult      = regexp.MustCompile(`^WEBHOOK_RESULT:[ \t]*((?i)agent_id|status)[ \t]*=([^,]*),[ \t]*((?i)agent_id|status)[ \t]*=([^,]*)$`)
	refStatus      = regexp.MustCompile(`^[0-9A-Za-z_-]{1,64}$`)
)

func refTrim(s string) string { return strings.Trim(s, " \t") }

func refFill(c *parser.Command, line string) bool {
	switch c.Verb {
	case parser.Subagent:
		return refSubagent(c, line)
	case parser.LocalAction:
		c.Action = refTrim(strings.TrimPrefix(line, "LOCAL_ACTION:"))
		return refAction.MatchString(c.Action)
	case parser.Remind:
		m := refRemind.FindStringSubmatch(line)
		if m == nil {
			return false
		}
		c.When, c.Message = refTrim(m[1]), refTrim(m[2])
		_, err := time.Parse(time.RFC3339, c.When)
		return c.Message != "" && c.When != "" && (err == nil || refShortTime.MatchString(c.When))
	}
	m := refResult.FindStringSubmatch(line)
	// Under (?i) the long s is an s.
	if m == nil || strings.Contains(m[1]+m[3], "ſ") || strings.EqualFold(m[1], m[3]) {
		return false
	}
	c.AgentID, c.Status = refTrim(m[2]), refTrim(m[4])
	if strings.EqualFold(m[1], "status") {
		c.AgentID, c.Status = c.Status, c.AgentID
	}
	return refURL.MatchString(c.AgentID) && refStatus.MatchString(c.Status)
}

func refSubagent(c *parser.Command, line string) bool {
	if m := refRepoFirst.FindStringSubmatch(line); m != nil {
		c.Repo, c.Prompt = refTrim(m[1]), refTrim(m[2])
	} else if m := refPromptFirst.FindStringSubmatch(line); m != nil {
		at := refRepoPair.FindAllStringIndex(m[1], -1)
		if len(at) != 1 || refPromptPair.MatchString(m[1][:at[0][0]]) {
			return false
		}
		c.Repo, c.Prompt = refTrim(m[1][at[0][1]:]), refTrim(m[1][:at[0][0]])
	}
	return refURL.MatchString(c.Repo) && c.Prompt != ""
}

// refOrnaments are the decorations, in the order in which they are tried.
var refOrnaments = []struct {
	code string
	re   *regexp.Regexp
}{
	{parser.CodeIndented, regexp.MustCompile(`^([ \t]+)`)},
	{parser.CodeQuoted, regexp.MustCompile(`^(>)`)},
	{parser.CodeListItem, regexp.MustCompile(`^((?:[-*+]|[0-9]{1,9}[.)])[ \t]\[[ xX]\])[ \t]`)},
	{parser.CodeListItem, regexp.MustCompile(`^([-*+]|[0-9]{1,9}[.)])[ \t]`)},
	{parser.CodeListItem, regexp.MustCompile(`^(•)`)},
	{parser.CodeHeading, regexp.MustCompile(`^(#{1,6})[ \t]`)},
	{parser.CodeEmphasis, regexp.MustCompile(`^([*_~])`)},
	{parser.CodeCodeSpan, regexp.MustCompile("^(`)")},
	{parser.CodeInvisible, regexp.MustCompile(`^(\x1b\[[0-9;?]*[A-Za-z])`)},
	{parser.CodeInvisible, regexp.MustCompile(`^([\x00-\x08\x0a-\x1f\x7f-\xa0\xad\x{2000}-\x{200f}\x{2028}-\x{202f}\x{205f}-\x{206f}\x{feff}\x{fffd}\x{e0000}-\x{e007f}])`)},
}

var (
	refClosed = regexp.MustCompile("^(SUBAGENT|LOCAL_ACTION|REMIND|WEBHOOK_RESULT)[*_~`]*:")
	refLoose  = regexp.MustCompile(`^((?i:SUB[ \t_-]?AGENT|LOCAL[ \t_-]?ACTION|REMIND|WEBHOOK[ \t_-]?RESULT)[sS]?)([ \t]*)(:|：)`)
)

func refStray(c byte) bool { return c >= 0x80 && c <= 0xc1 || c >= 0xf5 }

func refNear(line string) (code, verb string) {
	rest := line
	for again := true; again; {
		again = false
		if rest != "" && refStray(rest[0]) {
			rest, again = rest[1:], true
			if code == "" || code == parser.CodeIndented {
				code = parser.CodeInvisible
			}
			continue
		}
		if r, size := utf8.DecodeRuneInString(rest); r == utf8.RuneError && size == 1 {
			break
		}
		for _, o := range refOrnaments {
			if m := o.re.FindStringSubmatch(rest); m != nil {
				if code == "" || code == parser.CodeIndented {
					code = o.code
				}
				rest, again = rest[len(m[1]):], true
				break
			}
		}
	}
	re := refKeyword
	switch code {
	case "":
		return refNearColumnOne(line)
	case parser.CodeEmphasis, parser.CodeCodeSpan:
		re = refClosed
	}
	if m := re.FindStringSubmatch(rest); m != nil {
		return code, m[1]
	}
	return "", ""
}

func refNearColumnOne(line string) (code, verb string) {
	m := refLoose.FindStringSubmatch(line)
	if m == nil || len(m[1])+len(m[2]) >= 24 || strings.ContainsAny(m[1], "ſ\u212a") {
		return "", ""
	}
	switch upper := strings.ToUpper(m[1]); {
	case strings.HasPrefix(upper, "SUB"):
		verb = "SUBAGENT"
	case strings.HasPrefix(upper, "LOC"):
		verb = "LOCAL_ACTION"
	case strings.HasPrefix(upper, "REM"):
		verb = "REMIND"
	default:
		verb = "WEBHOOK_RESULT"
	}
	switch {
	case m[1] == verb && m[2] != "":
		return parser.CodeSpacing, verb
	case m[1] == verb:
		return parser.CodeColon, verb
	case strings.EqualFold(m[1], verb):
		return parser.CodeLowerCase, verb
	case m[1] == strings.ToUpper(m[1]):
		return parser.CodeSpelling, verb
	}
	return "", ""
}
