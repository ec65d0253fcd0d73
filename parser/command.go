package parser

import (
	"fmt"
	"strings"
	"time"
)

const (
	subagentForm = "write it as one line: SUBAGENT: repo=<repository URL>, prompt=<task>"
	actionForm   = "write it as one line: LOCAL_ACTION: <action id>"
	remindForm   = "write it as one line: REMIND: <time, date, or 30s, 10m, 1h30m, 3d, 1w, in 10 minutes>, <message>"
	webhookForm  = "write it as one line: WEBHOOK_RESULT: agent_id=<id>, status=<word>"
)

// keyword returns the verb that the line begins with, literally and with its
// colon, or "".
func keyword(line []byte) Verb {
	if len(line) == 0 {
		return ""
	}
	var v Verb
	switch line[0] {
	case 'S':
		v = Subagent
	case 'L':
		v = LocalAction
	case 'R':
		v = Remind
	case 'W':
		v = WebhookResult
	}
	n := len(v)
	if n == 0 || len(line) <= n || line[n] != ':' || string(line[:n]) != string(v) {
		return ""
	}
	return v
}

// command reports a line that begins with a keyword: as a Command, or as a near
// miss with what is wrong with it.
func (p *Parser) command(verb Verb, line []byte, cut bool) {
	cmd, f := p.read(verb, line, cut)
	if f.code != "" {
		p.miss(line, f)
		return
	}
	if verb == Subagent {
		p.after = p.line
	}
	if p.h.Command != nil {
		p.h.Command(cmd)
	}
}

func (p *Parser) read(verb Verb, line []byte, cut bool) (cmd Command, f fault) {
	switch {
	case !p.enabled(verb):
		return cmd, fault{CodeNotEnabled, fmt.Sprintf("is a %s, which is not enabled here", verb),
			"leave it out, or ask the operator to enable it"}
	case cut:
		return cmd, fault{CodeTooLong, fmt.Sprintf("is longer than %d bytes", maxLine),
			"shorten it, for example by pointing to a file in the repository"}
	}
	if bad := badCharacter(line); bad != "" {
		return cmd, fault{CodeBadCharacter, "holds " + bad, "write it again without that character"}
	}
	raw := string(line)
	cmd = Command{Verb: verb, Line: p.line, Raw: raw}
	rest := trim(raw[len(verb)+1:])
	switch verb {
	case Subagent:
		cmd.Repo, cmd.Prompt, f = readSubagent(rest)
	case LocalAction:
		cmd.Action, f = readAction(rest)
	case Remind:
		cmd.When, cmd.Message, f = readRemind(rest)
	case WebhookResult:
		cmd.AgentID, cmd.Status, f = readWebhookResult(rest)
	}
	return cmd, f
}

// readSubagent splits the pairs. The first key decides: after repo the prompt
// is all the rest, so that no prompt text can change the repository; after
// prompt there must be exactly one place where the repo can begin.
func readSubagent(rest string) (repo, prompt string, f fault) {
	key, value, ok := strings.Cut(rest, "=")
	key = trim(key)
	switch {
	case ok && fold(key, "repo"):
		repo, prompt, f = repoFirst(value)
	case ok && fold(key, "prompt"):
		repo, prompt, f = promptFirst(value)
	case ok && isWord(key):
		f = unknownKey(key)
	default:
		f = fault{CodeMalformed, "does not begin with repo=", subagentForm}
	}
	if f.code == "" {
		f = checkRepo(repo)
	}
	if f.code == "" && prompt == "" {
		f = fault{CodeEmptyValue, "has an empty prompt", subagentForm}
	}
	return repo, prompt, f
}

func repoFirst(value string) (repo, prompt string, f fault) {
	start, end := findKey(value, "prompt")
	if start < 0 {
		return "", "", fault{CodeMissingKey, "has no prompt= after a comma", subagentForm}
	}
	return trim(value[:start]), trim(value[end:]), f
}

func promptFirst(value string) (repo, prompt string, f fault) {
	start, end := findKey(value, "repo")
	if start < 0 {
		return "", "", fault{CodeMissingKey, "has no repo=", subagentForm}
	}
	if again, _ := findKey(value[end:], "repo"); again >= 0 {
		return "", "", repeatedKey("repo")
	}
	if again, _ := findKey(value[:start], "prompt"); again >= 0 {
		return "", "", repeatedKey("prompt")
	}
	return trim(value[end:]), trim(value[:start]), f
}

// checkRepo keeps out what cannot stand in a URL or separates pairs. It is no
// allowlist: hosts, user info and paths are judged by the policy.
func checkRepo(repo string) fault {
	if repo == "" {
		return fault{CodeEmptyValue, "has an empty repo", subagentForm}
	}
	if i := strings.IndexByte(repo, ','); i >= 0 {
		return strayPair(repo[i:])
	}
	for _, r := range repo {
		if !isURLRune(r) {
			return fault{CodeBadRepo, fmt.Sprintf("has %s in its repo, which a repository URL cannot contain", name(r)),
				"write the plain URL, for example github.com/owner/name, without quotes or blanks"}
		}
	}
	return fault{}
}

// strayPair says what a comma within a repo value leads to.
func strayPair(s string) fault {
	for s != "" {
		next := strings.IndexByte(s[1:], ',') + 1
		if next == 0 {
			next = len(s)
		}
		key, _, ok := strings.Cut(s[1:next], "=")
		key = trim(key)
		switch {
		case ok && (fold(key, "repo") || fold(key, "prompt")):
			return repeatedKey(strings.ToLower(key))
		case ok && isWord(key):
			return unknownKey(key)
		}
		s = s[next:]
	}
	return fault{CodeBadRepo, "has a comma in its repo", subagentForm}
}

func unknownKey(key string) fault {
	return fault{CodeUnknownKey, fmt.Sprintf("has the unknown key %q; only repo and prompt exist", key), subagentForm}
}

func repeatedKey(key string) fault {
	return fault{CodeRepeatedKey, fmt.Sprintf("names %s more than once, so its meaning is not clear", key),
		subagentForm + "; repo first, and the prompt may then hold anything"}
}

// readAction takes the whole rest as the id. An id with arguments is another
// id, which no allowlist holds.
func readAction(rest string) (string, fault) {
	if rest == "" {
		return "", fault{CodeEmptyValue, "names no action", actionForm}
	}
	if bad := notASCII(rest); bad != "" {
		return "", fault{CodeBadCharacter, "holds " + bad + " in its action id; ids are plain ASCII", actionForm}
	}
	return rest, fault{}
}

func readRemind(rest string) (when, message string, f fault) {
	when, message, ok := strings.Cut(rest, ",")
	when, message = trim(when), trim(message)
	switch {
	case !ok:
		f = fault{CodeMalformed, "has no comma between time and message", remindForm}
	case when == "":
		f = fault{CodeEmptyValue, "has no time", remindForm}
	case message == "":
		f = fault{CodeEmptyValue, "has no message", remindForm}
	case !isTime(when):
		f = fault{CodeBadTime, "has a time that cannot be read", remindForm}
	}
	return when, message, f
}

// isTime reports whether a reminder's time can be read. Whether it lies in the
// future, or is sensible, is for the caller that keeps the reminders.
func isTime(s string) bool {
	_, ok := When(s, time.Time{})
	return ok
}

// readWebhookResult accepts the two pairs in any order: neither is free text,
// so that no order is ambiguous.
func readWebhookResult(rest string) (id, status string, f fault) {
	if rest == "" {
		return "", "", fault{CodeMalformed, "holds no pairs", webhookForm}
	}
	var seenID, seenStatus bool
	for pair := range strings.SplitSeq(rest, ",") {
		key, value, ok := strings.Cut(pair, "=")
		key, value = trim(key), trim(value)
		switch {
		case !ok:
			f = fault{CodeMalformed, "is not made of key=value pairs", webhookForm}
		case fold(key, "agent_id") && !seenID:
			id, seenID = value, true
			f = checkID(value)
		case fold(key, "status") && !seenStatus:
			status, seenStatus = value, true
			f = checkStatus(value)
		case fold(key, "agent_id"), fold(key, "status"):
			f = fault{CodeRepeatedKey, "names a key more than once", webhookForm}
		default:
			f = fault{CodeUnknownKey, "has an unknown key; only agent_id and status exist", webhookForm}
		}
		if f.code != "" {
			return "", "", f
		}
	}
	if !seenID || !seenStatus {
		f = fault{CodeMissingKey, "needs both agent_id= and status=", webhookForm}
	}
	return id, status, f
}

func checkID(id string) fault {
	if id == "" {
		return fault{CodeEmptyValue, "has an empty agent_id", webhookForm}
	}
	for _, r := range id {
		if !isURLRune(r) {
			return fault{CodeBadValue, fmt.Sprintf("has %s in its agent_id", name(r)), webhookForm}
		}
	}
	return fault{}
}

func checkStatus(status string) fault {
	switch {
	case status == "":
		return fault{CodeEmptyValue, "has an empty status", webhookForm}
	case !isWord(status):
		return fault{CodeBadValue, "has a status that is not one short word", webhookForm}
	}
	return fault{}
}

// findKey returns where the first pair ", key=" begins and where its value
// does, or -1. A key has a boundary: "myrepo=" is not "repo=".
func findKey(s, key string) (start, end int) {
	for i := 0; ; {
		comma := strings.IndexByte(s[i:], ',')
		if comma < 0 {
			return -1, -1
		}
		start = i + comma
		i = skipBlanks(s, start+1)
		if len(s)-i < len(key) || !fold(s[i:i+len(key)], key) {
			continue
		}
		if eq := skipBlanks(s, i+len(key)); eq < len(s) && s[eq] == '=' {
			return start, eq + 1
		}
	}
}

func skipBlanks(s string, i int) int {
	for i < len(s) && isBlank(s[i]) {
		i++
	}
	return i
}

// trim removes ASCII space and tab only. strings.TrimSpace would remove U+2028
// and NEL as well, and so run what should be refused.
func trim(s string) string { return strings.Trim(s, " \t") }

// isWord accepts up to 64 letters, digits, - and _.
func isWord(s string) bool {
	for i := range len(s) {
		if !isAlnum(s[i]) && s[i] != '_' && s[i] != '-' {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// isURLRune accepts what RFC 3986 allows in a URL, without the comma, which
// separates pairs, and the apostrophe, which quotes.
func isURLRune(r rune) bool {
	return r > ' ' && r <= '~' && !strings.ContainsRune("\"'<>\\^`{|},", r)
}

// name shows a character in a reason without letting it disguise itself.
func name(r rune) string {
	switch {
	case r == ' ':
		return "a blank"
	case r == '\t':
		return "a tab"
	case r > ' ' && r <= '~':
		return string(r)
	}
	return fmt.Sprintf("U+%04X", r)
}
