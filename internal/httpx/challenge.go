package httpx

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// WriteUnauthorized answers 401 with kind "unauthenticated" and a challenge that
// says whether a token was shown (RFC 6750, 3.1): error="invalid_token" when there
// was one, nothing when there was none. A token that a client should have replaced
// by a variable's value gets a message of its own in the place of message.
func WriteUnauthorized(w http.ResponseWriter, r *http.Request, message string) {
	Challenge(w.Header(), r, "drawbridge")
	if name, ok := Unexpanded(shownTokens(r)...); ok {
		// The name alone: clients blank what they sent out of the messages that they show.
		message = fmt.Sprintf("the client sent a reference to the variable %s in the place of the token: it did not replace the variable by its value; "+
			"set the variable where the client starts, or write the token itself into the client's configuration", name)
	}
	WriteError(w, http.StatusUnauthorized, "unauthenticated", message)
}

// Challenge sets WWW-Authenticate for an answer of 401.
func Challenge(h http.Header, r *http.Request, realm string) {
	value := fmt.Sprintf("Bearer realm=%q", realm)
	if len(shownTokens(r)) > 0 {
		value += `, error="invalid_token", error_description="the token is unknown, revoked or another's"`
	}
	h.Set("WWW-Authenticate", value)
}

// TokenShown reports whether a request carries a token, be it right or wrong.
func TokenShown(r *http.Request) bool { return len(shownTokens(r)) > 0 }

// shownTokens are the tokens that a request carries. Another scheme than Bearer is
// not a token here, nor is a Bearer without one.
func shownTokens(r *http.Request) (tokens []string) {
	for _, value := range r.Header.Values("Authorization") {
		scheme, token, _ := strings.Cut(value, " ")
		if token = strings.TrimSpace(token); strings.EqualFold(scheme, "Bearer") && token != "" {
			tokens = append(tokens, token)
		}
	}
	for _, token := range r.Header.Values(TokenHeader) {
		if token = strings.TrimSpace(token); token != "" {
			tokens = append(tokens, token)
		}
	}
	return tokens
}

// reference finds how configurations refer to a variable: ${NAME}, ${env:NAME},
// ${input:NAME}, {env:NAME}, {file:NAME}, $NAME, $env:NAME, %NAME% and {{NAME}}. No
// token of the bridge holds such characters.
var reference = regexp.MustCompile(`\$\{[^{}]{0,80}\}|\{\{[^{}]{0,80}\}\}|\{(?:env|file):[^{}]{0,80}\}|^\$(?i:env:)?[A-Za-z_][A-Za-z0-9_]{0,80}$|^%[A-Za-z_][A-Za-z0-9_]{0,80}%$`)

// variable finds the name in a reference.
var variable = regexp.MustCompile(`^[${%]+(?:[a-zA-Z]+:)?([A-Za-z_][A-Za-z0-9_.-]*)`)

// Unexpanded finds, in tokens, a reference to a variable that was to be replaced by
// the variable's value. It returns the variable's name, fit to be shown.
func Unexpanded(tokens ...string) (name string, ok bool) {
	for _, token := range tokens {
		found := reference.FindString(token)
		if found == "" {
			continue
		}
		if m := variable.FindStringSubmatch(found); m != nil {
			return m[1], true
		}
		return "(without a name)", true
	}
	return "", false
}
