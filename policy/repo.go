package policy

import (
	"errors"
	"strings"
)

// Repo is a repository in canonical form: github.com/owner/name, or local/name for a clone on a person's machine that has no
// such remote, in lower-case ASCII. Only CanonicalRepo makes one from text, so that two Repos name the same repository exactly
// when they are equal.
type Repo string

const (
	host          = "github.com/"
	scheme        = "https://"
	maxOwner      = 39
	maxName       = 100
	maxRepo       = len(scheme) + len(host) + maxOwner + 1 + maxName + len(".git/")
	acceptedForm  = "write https://github.com/owner/name"
	wildcardName  = "/*"
	reservedWiki  = ".wiki"
	cloneSuffix   = ".git"
	notRepository = acceptedForm + ": "
	localPrefix   = "local/"
	notLocal      = "write local/name: "
)

// CanonicalRepo reads the one grammar that repositories are compared in (safety
// rules: Repository allowlist): an optional https://, github.com, an owner of at
// most 39 characters, a name of at most 100, an optional .git, an optional slash.
// Only ASCII space and tab around the value are trimmed. There is no URL library
// and no Unicode folding here on purpose: each of them makes two spellings equal
// that the API on the other side takes for two repositories. A value that begins with
// local/ has one name of at most 100 characters behind it, and nothing is cut off its end. The error names the
// accepted form and the reason, and never repeats the value.
func CanonicalRepo(value string) (Repo, error) {
	value = trimBlanks(value)
	if name, ok := cutPrefixFold(value, localPrefix); ok {
		return canonicalLocal(name)
	}
	owner, name, err := splitRepo(value)
	if err != nil {
		return "", err
	}
	if err := checkOwner(owner); err != nil {
		return "", err
	}
	name = cutSuffixFold(name, cloneSuffix)
	if err := checkName(name); err != nil {
		return "", err
	}
	return Repo(host + lowerASCII(owner) + "/" + lowerASCII(name)), nil
}

// canonicalLocal reads the name of a clone. It may become a folder and a part of a branch, so that dots are kept to the middle.
func canonicalLocal(name string) (Repo, error) {
	reason := ""
	switch {
	case name == "":
		reason = "the name is missing"
	case len(name) > maxName:
		reason = "the name is longer than 100 characters"
	case strings.Contains(name, "/"):
		reason = "there is more than a name after local/"
	case name[0] == '-' || name[0] == '.':
		reason = "the name begins with - or ."
	case name[len(name)-1] == '.' || strings.Contains(name, ".."):
		reason = "the name ends in . or has .. in it"
	case hasSuffixFold(name, cloneSuffix):
		reason = "the name ends in .git"
	}
	for i := range len(name) {
		if reason == "" && !isWord(name[i]) && name[i] != '.' {
			reason = "the name has a character other than letters, digits, ., - and _"
		}
	}
	if reason != "" {
		return "", errors.New(notLocal + reason)
	}
	return Repo(localPrefix + lowerASCII(name)), nil
}

// Local reports whether r is a clone on a person's machine, which no agent of the cloud can reach.
func (r Repo) Local() bool { return strings.HasPrefix(string(r), localPrefix) }

// Owner returns the part between the host and the name, or "" for a value that
// did not come from CanonicalRepo.
func (r Repo) Owner() string {
	rest, ok := strings.CutPrefix(string(r), host)
	if !ok {
		return ""
	}
	owner, _, ok := strings.Cut(rest, "/")
	if !ok {
		return ""
	}
	return owner
}

// wildcard is the pattern that covers every repository of r's owner; "" for a clone, which nobody owns there.
func (r Repo) wildcard() string {
	if r.Local() {
		return ""
	}
	return host + r.Owner() + wildcardName
}

// canonicalPattern reads an allowlist entry: a repository, or github.com/owner/*.
// The owner passes the same checks as a repository's owner, so that no entry can
// mean more than it shows.
func canonicalPattern(value string) (string, error) {
	value = trimBlanks(value)
	prefix, ok := strings.CutSuffix(value, wildcardName)
	if !ok {
		if strings.Contains(value, "*") {
			return "", refuse("* stands for a whole name and only at the end, as in github.com/owner/*")
		}
		repo, err := CanonicalRepo(value)
		return string(repo), err
	}
	if strings.Contains(prefix, "*") {
		return "", refuse("a wildcard covers the repositories of one owner; a wildcard for owners or hosts is never accepted")
	}
	repo, err := CanonicalRepo(prefix + "/x")
	if err == nil && repo.Local() {
		err = errors.New(notLocal + "each clone of a machine is listed by its own name")
	}
	if err != nil {
		return "", err
	}
	return repo.wildcard(), nil
}

// splitRepo cuts the scheme, the host and one slash at the end away and returns
// the two segments that are left, unchecked.
func splitRepo(value string) (owner, name string, err error) {
	if err := checkCharacters(value); err != nil {
		return "", "", err
	}
	rest, _ := cutPrefixFold(value, scheme)
	path, ok := cutPrefixFold(rest, host)
	if !ok {
		return "", "", refuse(hostReason(value))
	}
	owner, name, ok = strings.Cut(strings.TrimSuffix(path, "/"), "/")
	switch {
	case !ok || owner == "" || name == "":
		return "", "", refuse("the owner or the name is missing")
	case strings.Contains(name, "/"):
		return "", "", refuse("there is more than an owner and a name after github.com")
	}
	return owner, name, nil
}

func checkCharacters(value string) error {
	if value == "" {
		return refuse("it is empty")
	}
	if len(value) > maxRepo {
		return refuse("it is too long for a repository")
	}
	for i := range len(value) {
		if value[i] <= ' ' || value[i] > '~' {
			return refuse("it has a blank, a control or a character that is not ASCII")
		}
	}
	return nil
}

// hostReason explains why a value does not begin with the accepted host. The
// spellings that are usual elsewhere get a reason of their own, so that an agent
// can correct itself in one turn.
func hostReason(value string) string {
	lower := lowerASCII(value)
	switch {
	case strings.HasPrefix(lower, "http://"):
		return "http:// is not accepted, only https:// or no scheme"
	case strings.HasPrefix(lower, "git@"), strings.HasPrefix(lower, "ssh://"):
		return "ssh addresses are not accepted"
	case strings.Contains(value, "@"):
		return "a user name before the host is not accepted"
	case strings.HasPrefix(lower, scheme+"www."), strings.HasPrefix(lower, "www."):
		return "www. is not accepted"
	case strings.HasPrefix(lower, scheme+"github.com:"), strings.HasPrefix(lower, "github.com:"):
		return "a port is not accepted"
	case strings.Count(value, "/") == 1 && !strings.Contains(value, ":"):
		return "the host github.com/ is missing in front of the owner"
	}
	return "the host is not exactly github.com"
}

func checkOwner(owner string) error {
	if len(owner) > maxOwner {
		return refuse("the owner is longer than 39 characters")
	}
	if owner[0] == '-' || owner[0] == '_' {
		return refuse("the owner does not begin with a letter or a digit")
	}
	for i := range len(owner) {
		if !isWord(owner[i]) {
			return refuse("the owner has a character other than letters, digits, - and _")
		}
	}
	return nil
}

func checkName(name string) error {
	switch {
	case name == "", name == ".", name == "..":
		return refuse("the name is missing")
	case len(name) > maxName:
		return refuse("the name is longer than 100 characters")
	case name[0] == '-':
		return refuse("the name begins with -")
	case hasSuffixFold(name, cloneSuffix):
		return refuse("the name ends in .git more than once")
	case hasSuffixFold(name, reservedWiki):
		return refuse("wikis are not accepted")
	}
	for i := range len(name) {
		if !isWord(name[i]) && name[i] != '.' {
			return refuse("the name has a character other than letters, digits, ., - and _")
		}
	}
	return nil
}

func refuse(reason string) error { return errors.New(notRepository + reason) }

// isWord reports whether c may stand in an owner.
func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

func trimBlanks(s string) string { return strings.Trim(s, " \t") }

// lowerASCII lowers A to Z and nothing else. strings.ToLower turns U+0130 into
// an i and U+212A into a k, which once let a foreign host compare equal.
func lowerASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

func equalFoldASCII(s, lower string) bool {
	return len(s) == len(lower) && lowerASCII(s) == lower
}

func cutPrefixFold(s, lowerPrefix string) (string, bool) {
	n := len(lowerPrefix)
	if len(s) < n || !equalFoldASCII(s[:n], lowerPrefix) {
		return s, false
	}
	return s[n:], true
}

func hasSuffixFold(s, lowerSuffix string) bool {
	return len(s) >= len(lowerSuffix) && equalFoldASCII(s[len(s)-len(lowerSuffix):], lowerSuffix)
}

func cutSuffixFold(s, lowerSuffix string) string {
	if !hasSuffixFold(s, lowerSuffix) {
		return s
	}
	return s[:len(s)-len(lowerSuffix)]
}
