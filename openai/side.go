package openai

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"drawbridge/openai/upstream"
)

// SideName is the model that clients name for titles and the like where they can, such as small_model of OpenCode.
const SideName = "drawbridge-side"

// sideKind says what a side call asks for.
type sideKind string

// The kinds of side calls.
const (
	sideTitle    sideKind = "title"
	sideTags     sideKind = "tags"
	sideFollow   sideKind = "follow_ups"
	sideQueries  sideKind = "queries"
	sideComplete sideKind = "text"
	sideEmoji    sideKind = "emoji"
)

// sidePattern finds a side call as a client was seen to send it. A person's text may hold the same words, so that each pattern stands at
// the beginning of a message, and asks for more than one sign.
type sidePattern struct {
	kind sideKind
	// system and user begin a message of that role; both must fit where both are set.
	system, user *regexp.Regexp
}

var sidePatterns = []sidePattern{
	// OpenCode, and Crush.
	{kind: sideTitle, system: regexp.MustCompile(`^You are a title generator\.`)},
	{kind: sideTitle, system: regexp.MustCompile(`^You will generate a short title based on the first message`)},
	// Open WebUI. Its prompts may be replaced; the head and the history stay in most of them.
	{kind: sideTitle, user: regexp.MustCompile(`(?s)^### Task:\s*Generate a concise.{0,80}title.*<chat_history>`)},
	{kind: sideTags, user: regexp.MustCompile(`(?s)^### Task:\s*Generate .{0,40}tags.*<chat_history>`)},
	{kind: sideFollow, user: regexp.MustCompile(`(?s)^### Task:\s*Suggest .{0,40}follow-up.*<chat_history>`)},
	{kind: sideQueries, user: regexp.MustCompile(`(?s)^### Task:\s*Analyze the chat history to determine the necessity of generating search queries`)},
	{kind: sideComplete, user: regexp.MustCompile(`(?s)^### Task:\s*You are an autocompletion system`)},
	{kind: sideEmoji, user: regexp.MustCompile(`^Your task is to reflect the speaker's likely facial expression through a fitting emoji`)},
	// LibreChat: its three ways to ask for a title.
	{kind: sideTitle, user: regexp.MustCompile(`(?i)^(Please generate|Provide) a concise, 5-word-or-less title for the conversation`)},
	{kind: sideTitle, user: regexp.MustCompile(`(?s)^Analyze this conversation and provide:\s*1\. The detected language of the conversation\s*2\. A concise title`)},
	{kind: sideTitle, user: regexp.MustCompile(`^Please generate a concise title \(max 40 characters\) for a conversation that starts with`)},
	// Continue.
	{kind: sideTitle, user: regexp.MustCompile(`(?s)^Given the following.{0,40}please reply with a title for the chat that is 3-4 words in length`)},
}

// sideCall recognizes a request that clients send beside a conversation. It offers no tools, and has no answer of a model in it.
func sideCall(a *asked) (sideKind, bool) {
	if len(a.tools) > 0 || slices.ContainsFunc(a.messages, func(m upstream.Message) bool { return m.Role == "tool" || len(m.Calls) > 0 }) {
		return "", false
	}
	system, user := newest(a.messages, "system"), newest(a.messages, "user")
	for _, p := range sidePatterns {
		if (p.system == nil || p.system.MatchString(system)) && (p.user == nil || p.user.MatchString(user)) {
			return p.kind, true
		}
	}
	return "", false
}

// newest is the newest text of a role.
func newest(messages []upstream.Message, role string) string {
	for _, m := range slices.Backward(messages) {
		if m.Role == role {
			return strings.TrimSpace(m.Text)
		}
	}
	return ""
}

// lead finds the backend of a request. A side call never goes to one that wakes agents: the small model answers it, or a rule.
func (d *Door) lead(ctx context.Context, a *asked) (b Backend, m upstream.Model, side bool, err error) {
	kind, named := sideCall(a)
	if a.model == SideName {
		if !named {
			kind = sideTitle
		}
	} else if b, m, err = d.models.find(ctx, a.model); err != nil || !b.Agents || !named {
		return b, m, false, err
	}
	if d.o.SideModel != "" {
		b, m, err = d.models.find(ctx, d.o.SideModel)
		if err == nil && !b.Agents {
			return b, m, true, nil
		}
		d.o.Log.Warn().Err(err).Str("model", d.o.SideModel).Msg("openai.side_model does not name a model of a backend without agents, so a rule answers; correct it in bridge.yaml")
	}
	rule := Backend{Name: "rule", Upstream: ruled{answer: sideAnswer(kind, a)}, Stateless: true}
	return rule, upstream.Model{ID: a.model}, true, nil
}

// sideAnswer answers by a rule, in the form that the client asked for.
func sideAnswer(kind sideKind, a *asked) string {
	asJSON := strings.Contains(newest(a.messages, "user"), `JSON format:`) || !isNull(a.format) && !strings.Contains(string(a.format), `"text"`)
	switch kind {
	case sideTags:
		return `{"tags": ["General"]}`
	case sideFollow, sideQueries:
		return `{"` + string(kind) + `": []}`
	case sideComplete:
		return `{"text": ""}`
	case sideEmoji:
		return "💬"
	}
	title := shortTitle(ownWords(a.messages))
	switch {
	case asJSON && strings.HasPrefix(newest(a.messages, "user"), "Analyze this conversation"):
		return string(mustJSON(map[string]string{"language": "English", "title": title}))
	case asJSON:
		return string(mustJSON(map[string]string{"title": title}))
	}
	return title
}

// The places where clients put the user's own words into a prompt for a title.
var (
	inHistory = regexp.MustCompile(`(?s)<chat_history>\s*(?:USER:)?\s*(.*?)\s*(?:\n\s*ASSISTANT:|</chat_history>)`)
	inConvo   = regexp.MustCompile(`(?s)(?:\|\|>|\n)\s*User:\s*(.*?)\s*(?:\n\s*(?:\|\|>)?\s*(?:Response|AI|Assistant):|$)`)
)

// ownWords finds what the person wrote in a request for a title.
func ownWords(messages []upstream.Message) string {
	prompt := newest(messages, "user")
	for _, place := range []*regexp.Regexp{inHistory, inConvo} {
		if m := place.FindStringSubmatch(prompt); m != nil {
			return m[1]
		}
	}
	var texts []string
	for _, m := range messages {
		if m.Role == "user" && !isPrompt(m.Text) {
			texts = append(texts, m.Text)
		}
	}
	if len(texts) > 0 {
		return texts[0]
	}
	_, rest, _ := strings.Cut(prompt, "\n\n")
	return rest
}

// isPrompt reports whether a text is the client's and not the person's.
func isPrompt(text string) bool {
	text = strings.TrimSpace(text)
	return strings.HasPrefix(text, "Generate a title for this conversation:") && !strings.Contains(text, "\n") ||
		slices.ContainsFunc(sidePatterns, func(p sidePattern) bool { return p.user != nil && p.user.MatchString(text) })
}

// The bounds of a title: clients show 50 characters.
const (
	titleWords = 7
	titleRunes = 50
)

// shortTitle is the beginning of a text, on one line, with a capital.
func shortTitle(text string) string {
	text = strings.TrimPrefix(strings.TrimSpace(text), "Generate a title for this conversation:")
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '"' || r == '`' || r == '<' || r == '>' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	title := ""
	for i, word := range strings.Fields(text) {
		if i == titleWords || utf8.RuneCountInString(title)+1+utf8.RuneCountInString(word) > titleRunes {
			break
		}
		title = strings.TrimSpace(title + " " + word)
	}
	if title == "" && len(text) > 0 { // one long word, as in languages without blanks
		if f := strings.Fields(text); len(f) > 0 {
			title = string([]rune(f[0])[:min(titleRunes, utf8.RuneCountInString(f[0]))])
		}
	}
	title = strings.TrimRight(title, ".,;:!?")
	if title == "" {
		return "New conversation"
	}
	first, n := utf8.DecodeRuneInString(title)
	return string(unicode.ToUpper(first)) + title[n:]
}
