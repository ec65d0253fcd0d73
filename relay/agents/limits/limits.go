// Package limits reads from the words of an agent's error whether its account is limited, and when the agent may go on.
//
// It reads errors alone: an answer may speak of limits, too. It waits for nothing and retries nothing. Rule of thumb: a time that a text
// states counts, in the time zone that it names or else in that of the machine. A text without a time leads to waits that grow.
package limits

import (
	"regexp"
	"strings"
	"sync"
	"time"
)

const (
	// Most is how far ahead a time may lie. Nobody knows what an account may do after a longer time, so that it is tried again then.
	Most = 8 * 24 * time.Hour
	// Soon is the wait when the stated time has passed.
	Soon = time.Minute
	// maxWait bounds the waits that grow.
	maxWait = time.Hour
	// maxText is how much of a text is read, in bytes: its beginning and its end.
	maxText = 16 << 10
)

// First waits for a limit of each sort that states no time.
const (
	waitRate  = time.Minute
	waitUsage = 15 * time.Minute
	waitMoney = time.Hour
)

// Reading is what a text says of a limit.
type Reading struct {
	// Until is the stated time, not before the reading and at most Most after it. It is zero when the text states none.
	Until time.Time
	// Wait is how long to wait the first time when the text states none.
	Wait time.Duration
}

// Read reads the words of an error. limited is false for an error of another kind. local is the time zone of times that name none; nil is
// that of this machine.
func Read(text string, now time.Time, local *time.Location) (r Reading, limited bool) {
	if local == nil {
		local = time.Local
	}
	text = normalize(text)
	sort := sortOf(text)
	if sort == 0 {
		return Reading{}, false
	}
	return Reading{Until: bound(stated(text, clock{now, local}), now), Wait: sort}, true
}

// bound keeps a time within what is waited for.
func bound(until, now time.Time) time.Time {
	switch {
	case until.IsZero():
		return until
	case until.Before(now.Add(Soon)):
		return now.Add(Soon)
	case until.After(now.Add(Most)):
		return now.Add(Most)
	}
	return until
}

// At returns a time that was read from a field of a message, bounded like those of texts.
func At(until, now time.Time) Reading { return Reading{Until: bound(until, now), Wait: waitUsage} }

var (
	spaces = regexp.MustCompile(`[\s\x{00a0}\x{202f}\x{2500}-\x{257f}]+`)
	// plainer writes as one sign what is written in several ways, and takes one level of JSON's own quotes away.
	plainer = strings.NewReplacer("’", "'", "‘", "'", `\\\"`, `"`, `\"`, `"`, `\n`, " ", `\\n`, " ", "*", "", "·", " ", "∙", " ", "•", " ")
)

func normalize(text string) string {
	if len(text) > maxText {
		text = text[:maxText/2] + " ... " + text[len(text)-maxText/2:]
	}
	return spaces.ReplaceAllString(plainer.Replace(text), " ")
}

// Words that look like those of a limit and are not: addresses, names of headers, and limits that no time lifts.
var noLimit = regexp.MustCompile(`(?i)https?://\S+|[\w-]*ratelimit-[\w-]+|\bdisk quota\b[\w ]*|` +
	`\b(?:context(?: window| length)?|turns?|steps?|iterations?|recursion|depth|tools?(?: calls?)?|memory|cpu|time|file|size|length|process(?:es)?|conversation(?: length)?|(?:output |input |prompt |context )?tokens?|characters?|upload|descriptors?)[ _-]limit(?: (?:of \S+ )?(?:was |has been |is )?(?:reached|exceeded|hit))?|` +
	`\b(?:max(?:imum)?|number of) [\w -]{1,30}limit(?: reached| exceeded)?`)

// Signs of a limit, the ones with the longest wait first.
var (
	moneySigns = regexp.MustCompile(`(?i)credit balance is too low|insufficient[_ ](?:quota|credits?|balance|funds)|out of (?:\w+ )?credits|spend(?:ing)?[_ ](?:cap|limit)|check your plan and billing|payment required|(?:monthly|billing) cycle|needs? more credits`)
	usageSigns = regexp.MustCompile(`(?i)usage[_ ]?limit|\bquota\b|(?:session|hour(?:ly)?|daily|day|weekly|monthly|opus|sonnet|haiku|fable|message|messages|request|requests|plan|subscription|free)[ _-]limit|\bhit your (?:[\w-]+ ){0,3}limit|\blimits? (?:has been |was |is )?(?:reached|exhausted|exceeded)|out of (?:\w+ )?usage|usage (?:cap|exceeded)|exhausted your capacity|resource[_ ](?:has been )?exhausted`)
	// rateLimit is taken out before a text is searched for the signs of a longer limit.
	rateLimit = regexp.MustCompile(`(?i)\brate[- _]?limits?\b`)
	rateSigns = regexp.MustCompile(`(?i)\brate[- _]?limit|\btoo many requests\b|(?:\b(?:status|error|code|http|failed|rejected)\b["' :=({]*(?:code["' :=]*)?|^)(?:429|529)\b|\b429[ :]+(?:too|rate|\{)|\boverloaded|\bat capacity\b|throttl(?:ed|ing)|high demand`)
)

// sortOf returns the first wait for a limit of its sort, 0 for a text without one.
func sortOf(text string) time.Duration {
	text = noLimit.ReplaceAllString(text, " ")
	switch {
	case moneySigns.MatchString(text):
		return waitMoney
	case usageSigns.MatchString(rateLimit.ReplaceAllString(text, " ")):
		return waitUsage
	case rateSigns.MatchString(text):
		return waitRate
	}
	return 0
}

// Pace turns readings of one account into times: those that state none wait longer each time in a row. The zero Pace is ready; it is safe
// for concurrent use.
type Pace struct {
	mu  sync.Mutex // guards the field below
	row int
}

// Until returns the time before which the agent is not to be tried again.
func (p *Pace) Until(r Reading, now time.Time) time.Time {
	if !r.Until.IsZero() {
		return r.Until
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	wait := max(r.Wait, Soon)
	for range p.row {
		if wait *= 2; wait >= maxWait {
			wait = max(maxWait, r.Wait)
			break
		}
	}
	p.row++
	return now.Add(wait)
}

// Answered notes that the account is not limited.
func (p *Pace) Answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.row = 0
}
