package policy

import (
	"strings"

	"drawbridge/internal/lookalike"
)

// reservedNames are the words that turns, mail and the doors use for people, for the
// bridge and for everybody at once, and the keywords of commands.
var reservedNames = []string{
	"operator", "user", "you", "me", "myself", "self", "yourself", "person", "people", "human", "owner", "admin", "administrator", "root", "superuser", "moderator",
	"bridge", "drawbridge", "system", "relay", "assistant", "prompt", "parent",
	"all", "any", "anyone", "anybody", "everyone", "everybody", "nobody", "somebody", "someone", "here", "channel", "broadcast",
	"subagent", "local_action", "remind", "webhook_result",
}

// articles may stand before a reserved word and leave it what it is, as in "the-operator".
var articles = []string{"the", "a", "an", "my", "your", "our", "this", "real"}

// reserved maps what a reader sees to the word that it is.
var reserved = func() map[string]string {
	seen := make(map[string]string)
	for _, word := range reservedNames {
		for _, before := range append([]string{""}, articles...) {
			for _, after := range []string{"", "s"} {
				seen[seenAs(before+word+after)] = word
			}
		}
	}
	return seen
}()

// ReservedName returns the reserved word that a reader would take an agent's name for,
// or "". Case, look-alike characters, separators, an article and a number behind it
// make no difference. It is safe for concurrent use.
func ReservedName(name string) string {
	if word := reserved[seenAs(name)]; word != "" {
		return word
	}
	return reserved[seenAs(strings.TrimRight(name, "0123456789-_."))]
}

// shortName is how many letters a name has that is compared more strictly, because too
// many short words look like one another: "a11" is not "all".
const shortName = 3

func seenAs(name string) string {
	letters := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' {
			return -1
		}
		return r
	}, name)
	if len(letters) <= shortName {
		return "short " + strings.ToLower(strings.NewReplacer("I", "l", "0", "o").Replace(letters))
	}
	return lookalike.Skeleton(letters)
}
