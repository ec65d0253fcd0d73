package openai

import (
	"net/http"
	"strings"

	"drawbridge/bridge/words"
	"drawbridge/internal/httpx"
	"drawbridge/openai/upstream"
)

// route serves a path below /v1, and the same path without it. Names of models hold slashes, so that no pattern of a router fits.
func (d *Door) route(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/v1")
	id, one := strings.CutPrefix(path, "/models/")
	method, serve, name := http.MethodPost, http.HandlerFunc(nil), "/v1"+path
	switch {
	case path == "/models":
		method, serve = http.MethodGet, d.models
	case one:
		method, name = http.MethodGet, "/v1/models/{id}"
		serve = func(w http.ResponseWriter, r *http.Request) { d.model(w, r, id) }
	}
	switch {
	case serve == nil:
		writeError(w, r, noPath(r))
	case r.Method != method:
		w.Header().Set("Allow", method)
		writeError(w, r, failure(http.StatusMethodNotAllowed, invalidRequest, "method_not_allowed", "this path takes "+method+" alone"))
	default:
		httpx.RecordOf(r.Context()).Route = name
		serve(w, r)
	}
}

func noPath(r *http.Request) *upstream.Error {
	return failure(http.StatusNotFound, invalidRequest, "not_found",
		"this door does not serve "+words.SafeWord(r.URL.Path)+"; it serves /v1/chat/completions, /v1/responses, /v1/tool_results and /v1/models")
}
