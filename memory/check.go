package memory

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"drawbridge/bridge"
)

// The limits of one agent's memory; texts in bytes, tags and
// labels in characters.
const (
	MaxBlocks   = 1000
	MaxPassages = 1_000_000
	MaxBytes    = 256 << 20
	MaxText     = 16 << 10
	MaxTags     = 20
	MaxTag      = 64
	MaxLabel    = 200
	// MaxQuery bounds the text of a search and MaxFound its limit.
	MaxQuery = 4 << 10
	MaxFound = 100
)

// checkDraft takes any label that is one line and shows as it is (seed: the office, a
// string): it heads its block in the agent's turns and stands in people's lists.
func checkDraft(d Draft) error {
	switch {
	case d.Label == "":
		return bridge.Errorf(bridge.Invalid, "label is empty; name the block")
	case utf8.RuneCountInString(d.Label) > MaxLabel:
		return bridge.Errorf(bridge.Invalid, "label %+.80q has %d characters; at most %d are allowed", d.Label, utf8.RuneCountInString(d.Label), MaxLabel)
	case !utf8.ValidString(d.Label) || strings.ContainsFunc(d.Label, hidden):
		return bridge.Errorf(bridge.Invalid, "label %+.80q: use one line of text without invisible characters", d.Label)
	}
	return checkText("content", d.Content, MaxText)
}

// hidden reports what does not show, but for the joiners that scripts and emoji are written with.
func hidden(r rune) bool { return !unicode.IsGraphic(r) && r != '\u200c' && r != '\u200d' }

// checkText refuses what a database would not give back as it was.
func checkText(what, text string, limit int) error {
	switch {
	case len(text) > limit:
		return bridge.Errorf(bridge.TooLarge, "%s has %d bytes; at most %d are allowed", what, len(text), limit)
	case !utf8.ValidString(text):
		return bridge.Errorf(bridge.Invalid, "%s is not valid UTF-8", what)
	case strings.ContainsRune(text, 0):
		return bridge.Errorf(bridge.Invalid, "%s has a NUL character; leave it out", what)
	}
	return nil
}

// checkPassage returns the tags without blanks around them and without repetition.
func checkPassage(content string, tags []string) ([]string, error) {
	if err := checkText("content", content, MaxText); err != nil {
		return nil, err
	}
	if strings.TrimSpace(content) == "" {
		return nil, bridge.Errorf(bridge.Invalid, "content is empty; say what to remember")
	}
	return checkTags(tags)
}

func checkTags(tags []string) ([]string, error) {
	clean := []string{}
	for _, tag := range tags {
		tag = strings.TrimSpace(tag)
		switch {
		case tag == "":
			return nil, bridge.Errorf(bridge.Invalid, "a tag is empty; leave it out")
		case !utf8.ValidString(tag) || strings.ContainsFunc(tag, unicode.IsControl):
			return nil, bridge.Errorf(bridge.Invalid, "tag %.80q: use one line of text", tag)
		case utf8.RuneCountInString(tag) > MaxTag:
			return nil, bridge.Errorf(bridge.Invalid, "tag %.80q has %d characters; at most %d are allowed", tag, utf8.RuneCountInString(tag), MaxTag)
		}
		if !slices.Contains(clean, tag) {
			clean = append(clean, tag)
		}
		if len(clean) > MaxTags {
			return nil, bridge.Errorf(bridge.Invalid, "there are more than %d tags; choose the best", MaxTags)
		}
	}
	return clean, nil
}

func checkQuery(q Query) ([]string, error) {
	if len(q.Text) > MaxQuery {
		return nil, bridge.Errorf(bridge.TooLarge, "the query has %d bytes; at most %d are allowed: a few words are enough", len(q.Text), MaxQuery)
	}
	if q.Limit < 0 || q.Limit > MaxFound {
		return nil, bridge.Errorf(bridge.Invalid, "limit %d: use 1 to %d", q.Limit, MaxFound)
	}
	return checkTags(q.Tags)
}
