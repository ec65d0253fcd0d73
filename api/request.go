package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gorilla/mux"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
	"drawbridge/internal/strictjson"
)

// maxBody bounds a request's body in bytes. The strict reader has a limit of
// its own; whichever is lower counts.
const maxBody = 2 << 20

// readExact reads a request whose every key must be known.
func readExact(w http.ResponseWriter, r *http.Request, v any) error {
	return readJSON(w, r, v, strictjson.DecodeExact)
}

// readTolerant reads a request of the seed's surface, whose clients may send
// more than is asked for. Two readings of one key are refused all the same.
func readTolerant(w http.ResponseWriter, r *http.Request, v any) error {
	return readJSON(w, r, v, strictjson.Decode)
}

func readJSON(w http.ResponseWriter, r *http.Request, v any, decode func([]byte, any) error) error {
	body, err := httpx.ReadBody(w, r, maxBody)
	switch {
	case errors.Is(err, httpx.ErrTooLarge):
		return bridge.Errorf(bridge.TooLarge, "the body has more than %d bytes", maxBody)
	case err != nil:
		return &bridge.Error{Kind: bridge.Invalid, Message: "the body could not be read", Cause: err}
	}
	return bodyError(decode(body, v))
}

// bodyError says in words what is wrong with a body, without Go's names in it.
func bodyError(err error) error {
	var key *strictjson.KeyError
	var typ *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, strictjson.ErrTooLarge):
		return bridge.Errorf(bridge.TooLarge, "the body has more than %d bytes", strictjson.MaxBytes)
	case errors.As(err, &key):
		return bridge.Errorf(bridge.Invalid, "%s", key.Error())
	case errors.As(err, &typ) && typ.Field != "":
		return bridge.Errorf(bridge.Invalid, "key %+q cannot be a %s", typ.Field, typ.Value)
	case errors.As(err, &typ):
		return bridge.Errorf(bridge.Invalid, "the body must be a JSON object")
	}
	return &bridge.Error{Kind: bridge.Invalid, Message: "the body is not one valid JSON document", Cause: err}
}

// pathValue returns a decoded path variable. The router matched it encoded.
func pathValue(r *http.Request, name string) (string, error) {
	value, err := url.PathUnescape(mux.Vars(r)[name])
	if err != nil || !utf8.ValidString(value) {
		return "", bridge.Errorf(bridge.Invalid, "the path must be UTF-8 with valid percent escapes; correct it")
	}
	return value, nil
}

// query is a checked query string.
type query struct{ values url.Values }

// readQuery refuses parameters that are unknown or given twice: a filter that is
// misspelt must not show everything. See httpx.ReadQuery.
func readQuery(r *http.Request, known ...string) (query, error) {
	values, err := httpx.ReadQuery(r, known...)
	if err != nil {
		return query{}, bridge.Errorf(bridge.Invalid, "%s", err)
	}
	return query{values: values}, nil
}

func (q query) get(key string) string { return q.values.Get(key) }

// number reads a whole number of at least least; fallback when it is absent.
func (q query) number(key string, fallback, least int64) (int64, error) {
	text := q.get(key)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least {
		return 0, bridge.Errorf(bridge.Invalid, "%s: %+.40q is not a whole number of at least %d", key, text, least)
	}
	return n, nil
}

// The bounds of a list's length.
const (
	defaultLimit = 100
	maxLimit     = 1000
)

func (q query) limit() (int, error) {
	n, err := q.number("limit", defaultLimit, 1)
	return int(min(n, maxLimit)), err
}

// oneOf reads a state word; empty selects everything.
func oneOf[T ~string, V any](q query, key string, known map[T]V) (T, error) {
	word := T(q.get(key))
	if _, ok := known[word]; ok || word == "" {
		return word, nil
	}
	words := make([]string, 0, len(known))
	for w := range known {
		words = append(words, string(w))
	}
	slices.Sort(words)
	return "", bridge.Errorf(bridge.Invalid, "%s: %+.40q is not one of %s", key, string(word), strings.Join(words, ", "))
}

// checkLine refuses what does not fit on one printable line of at most limit bytes.
func checkLine(what, value string, limit int) error {
	reason := ""
	switch {
	case len(value) > limit:
		reason = fmt.Sprintf("has %d bytes; at most %d are allowed", len(value), limit)
	case !utf8.ValidString(value) || strings.ContainsFunc(value, func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }):
		reason = "holds control characters"
	}
	if reason == "" {
		return nil
	}
	return bridge.Errorf(bridge.Invalid, "%s %s", what, reason)
}

// untilDraining returns a context that ends when the server begins to stop, for a
// request that asks the Cloud Agents API and can be made again. The caller cancels it.
func untilDraining(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	drain := httpx.Draining(ctx)
	go func() {
		select {
		case <-drain:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
