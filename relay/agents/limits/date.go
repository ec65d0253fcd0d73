package limits

import (
	"regexp"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // A machine without a database of time zones would read "3am (Europe/Berlin)" in its own zone.
)

// Parts of times in sentences.
const (
	hours = `(?P<h>\d{1,2})(?:[:.h](?P<m>\d{2})(?::(?P<s>\d{2}))?)? ?(?P<ap>[ap]\.?m\b\.?)?`
	month = `(?P<mon>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?`
	day   = `(?P<d>\d{1,2})(?:st|nd|rd|th)?`
	year  = `(?:(?:,| de)? ?(?P<y>20\d{2}))?`
	comma = `(?:,? ?(?:at |um |- )?`
	zone  = ` ?(?:\((?P<zone>[A-Za-z0-9_+/: -]{1,40})\)|(?P<abbr>(?:utc|gmt)(?:[+-]\d{1,2}(?::?\d{2})?)?|z|[pmce][sd]?t|cest|cet|bst|ist|jst|aes?t|aedt)\b|(?P<off>[+-]\d{2}:?\d{2}))?`
)

var (
	iso = regexp.MustCompile(`(?i)^(?P<y>20\d{2})-(?P<mo>\d{2})-(?P<d>\d{2})(?:[t ](?P<h>\d{2}):(?P<m>\d{2})(?::(?P<s>\d{2}))?(?:\.\d{1,9})?)?` + zone)
	// dates are the other forms with a date, the longer ones first.
	dates = []*regexp.Regexp{
		regexp.MustCompile(`(?i)^(?P<mo>\d{1,2})/(?P<d>\d{1,2})/(?P<y>20\d{2})` + comma + hours + `)?` + zone),
		regexp.MustCompile(`(?i)^` + month + ` ` + day + `\b` + year + comma + hours + `)?` + zone),
		regexp.MustCompile(`(?i)^` + day + ` (?:de )?` + month + year + comma + hours + `)?` + zone),
		regexp.MustCompile(`(?i)^` + hours + ` (?:on )?` + day + ` ` + month + year + zone),
		regexp.MustCompile(`(?i)^` + hours + ` (?:on )?` + month + ` ` + day + year + zone),
	}
	// days are the forms that name a day by its place in the week or beside today.
	days = []*regexp.Regexp{
		regexp.MustCompile(`(?i)^(?P<wd>sun|mon|tue|wed|thu|fri|sat)[a-z]*` + comma + hours + `)?` + zone),
		regexp.MustCompile(`(?i)^(?P<wd>tomorrow)` + comma + hours + `)?` + zone),
		regexp.MustCompile(`(?i)^` + hours + ` (?P<wd>tomorrow)` + zone),
	}
	ofDay = []*regexp.Regexp{
		regexp.MustCompile(`(?i)^(?:today ?(?:at )?)?` + hours + zone),
		regexp.MustCompile(`(?i)^(?P<word>midnight|noon)` + zone),
	}
)

// parts are the named parts of a match.
type parts map[string]string

func match(re *regexp.Regexp, text string) parts {
	m := re.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	p := parts{}
	for i, name := range re.SubexpNames() {
		if m[i] != "" {
			p[name] = m[i]
		}
	}
	return p
}

func (p parts) number(name string) int {
	n, _ := strconv.Atoi(p[name]) // digits, or nothing
	return n
}

// hour returns the time of the day; ok is false for one that does not exist.
func (p parts) hour() (h, m, s int, ok bool) {
	h, m, s = p.number("h"), p.number("m"), p.number("s")
	if p["word"] == "noon" || p["word"] == "Noon" {
		h = 12
	}
	if half := strings.ToLower(p["ap"]); half != "" {
		if h < 1 || h > 12 {
			return 0, 0, 0, false
		}
		h %= 12
		if half[0] == 'p' {
			h += 12
		}
	}
	return h, m, s, h < 24 && m < 60 && s < 60
}

// date reads a time with a date, or with a day of the week; dated is false for anything else.
func (c clock) date(text string) (t time.Time, dated bool) {
	if t := isoDate(text, c); !t.IsZero() {
		return t, true
	}
	for _, re := range dates {
		if p := match(re, text); p != nil {
			if t, ok := c.onDate(p); ok {
				return t, true
			}
		}
	}
	for _, re := range days {
		if p := match(re, text); p != nil {
			if t, ok := c.onDay(p); ok {
				return t, true
			}
		}
	}
	return time.Time{}, false
}

func isoDate(text string, c clock) time.Time {
	if p := match(iso, text); p != nil {
		if t, ok := c.onDate(p); ok {
			return t
		}
	}
	return time.Time{}
}

// onDate makes a time of a date. Without a year it is the one that lies nearest to now.
func (c clock) onDate(p parts) (time.Time, bool) {
	loc, now := c.zone(p), c.now
	h, m, s, ok := p.hour()
	mo := time.Month(p.number("mo"))
	if name := strings.ToLower(p["mon"]); name != "" {
		mo = time.Month(strings.Index("janfebmaraprmayjunjulaugsepoctnovdec", name)/3 + 1)
	}
	d := p.number("d")
	if p["mo"] != "" && mo > 12 && d <= 12 {
		mo, d = time.Month(d), int(mo)
	}
	if !ok || mo < 1 || mo > 12 || d < 1 || d > 31 {
		return time.Time{}, false
	}
	if y := p.number("y"); y != 0 {
		return time.Date(y, mo, d, h, m, s, 0, loc), true
	}
	t := time.Date(now.In(loc).Year(), mo, d, h, m, s, 0, loc)
	const half = 183 * 24 * time.Hour
	switch {
	case t.Before(now.Add(-half)):
		return t.AddDate(1, 0, 0), true
	case t.After(now.Add(half)):
		return t.AddDate(-1, 0, 0), true
	}
	return t, true
}

// onDay makes a time of a day of the week, the next one, or of tomorrow.
func (c clock) onDay(p parts) (time.Time, bool) {
	loc := c.zone(p)
	today := c.now.In(loc)
	h, m, s, ok := p.hour()
	ahead := 1
	if wd := strings.ToLower(p["wd"]); wd != "tomorrow" {
		ahead = (strings.Index("sunmontuewedthufrisat", wd)/3 - int(today.Weekday()) + 7) % 7
	}
	t := time.Date(today.Year(), today.Month(), today.Day()+ahead, h, m, s, 0, loc)
	if t.Before(c.now.Add(-justPassed)) {
		t = time.Date(today.Year(), today.Month(), today.Day()+ahead+7, h, m, s, 0, loc)
	}
	return t, ok
}

// timeOfDay reads a time without a date, and returns the next one, or with today the one of today.
func (c clock) timeOfDay(text string, today bool) time.Time {
	for _, re := range ofDay {
		p := match(re, text)
		if p == nil || p["word"] == "" && p["ap"] == "" && p["m"] == "" {
			continue
		}
		h, m, s, ok := p.hour()
		if !ok {
			continue
		}
		loc := c.zone(p)
		date := c.now.In(loc)
		t := time.Date(date.Year(), date.Month(), date.Day(), h, m, s, 0, loc)
		if !today && t.Before(c.now.Add(-justPassed)) {
			t = time.Date(date.Year(), date.Month(), date.Day()+1, h, m, s, 0, loc)
		}
		return t
	}
	return time.Time{}
}

// abbreviations are short names of zones, as their users mean them in summer and in winter.
var abbreviations = map[string]string{
	"pt": "America/Los_Angeles", "pst": "America/Los_Angeles", "pdt": "America/Los_Angeles", "mt": "America/Denver", "mst": "America/Denver", "mdt": "America/Denver",
	"ct": "America/Chicago", "cst": "America/Chicago", "cdt": "America/Chicago", "et": "America/New_York", "est": "America/New_York", "edt": "America/New_York",
	"cet": "Europe/Berlin", "cest": "Europe/Berlin", "bst": "Europe/London", "ist": "Asia/Kolkata", "jst": "Asia/Tokyo", "aest": "Australia/Sydney", "aedt": "Australia/Sydney", "aet": "Australia/Sydney",
	"utc": "UTC", "gmt": "UTC", "z": "UTC",
}

// zone returns the time zone that a match names, the local one when it names none or one that nobody knows.
func (c clock) zone(p parts) *time.Location {
	name := strings.TrimSpace(p["zone"] + p["abbr"])
	if loc, ok := offset(p["off"]); ok {
		return loc
	}
	lower := strings.ToLower(name)
	if rest, found := strings.CutPrefix(lower, "utc"); found {
		if loc, ok := offset(rest); ok {
			return loc
		}
	}
	if rest, found := strings.CutPrefix(lower, "gmt"); found {
		if loc, ok := offset(rest); ok {
			return loc
		}
	}
	if full := abbreviations[lower]; full != "" {
		name = full
	}
	if name == "" || strings.EqualFold(name, "local") {
		return c.local
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return c.local
	}
	return loc
}

var offsetForm = regexp.MustCompile(`^([+-])(\d{1,2}):?(\d{2})?$`)

// offset reads a distance from UTC, such as +2, -0330 or +05:30.
func offset(text string) (*time.Location, bool) {
	m := offsetForm.FindStringSubmatch(text)
	if m == nil {
		return nil, false
	}
	h, _ := strconv.Atoi(m[2]) // digits
	min, _ := strconv.Atoi(m[3])
	east := h*3600 + min*60
	if m[1] == "-" {
		east = -east
	}
	return time.FixedZone(text, east), h <= 14 && min < 60
}
