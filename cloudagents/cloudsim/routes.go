package cloudsim

import (
	"net/http"
	"strings"

	"github.com/gorilla/mux"

	"drawbridge/cloudagents/cloudsim/internal/request"
	"drawbridge/cloudagents/cloudsim/script"
)

// endpoint is one row of the vendor's tables.
type endpoint struct {
	api    script.API
	op     script.Op
	method string
	path   string
	body   bool // the call has a JSON body
	handle func(*Sim, *call) (reply, error)
}

var endpoints = []endpoint{
	{script.V0, script.OpMe, "GET", "/v0/me", false, (*Sim).me},
	{script.V0, script.OpModels, "GET", "/v0/models", false, (*Sim).v0Models},
	{script.V0, script.OpRepositories, "GET", "/v0/repositories", false, (*Sim).v0Repositories},
	{script.V0, script.OpCreate, "POST", "/v0/agents", true, (*Sim).v0Launch},
	{script.V0, script.OpList, "GET", "/v0/agents", false, (*Sim).v0List},
	{script.V0, script.OpGet, "GET", "/v0/agents/{id}", false, (*Sim).v0Get},
	{script.V0, script.OpDelete, "DELETE", "/v0/agents/{id}", false, (*Sim).v0Delete},
	{script.V0, script.OpConversation, "GET", "/v0/agents/{id}/conversation", false, (*Sim).v0Conversation},
	{script.V0, script.OpFollowup, "POST", "/v0/agents/{id}/followup", true, (*Sim).v0Followup},
	{script.V0, script.OpCancel, "POST", "/v0/agents/{id}/stop", false, (*Sim).v0Stop},
	{script.V0, script.OpArtifacts, "GET", "/v0/agents/{id}/artifacts", false, (*Sim).v0Artifacts},
	{script.V0, script.OpDownload, "GET", "/v0/agents/{id}/artifacts/download", false, (*Sim).v0Download},

	{script.V1, script.OpMe, "GET", "/v1/me", false, (*Sim).me},
	{script.V1, script.OpModels, "GET", "/v1/models", false, (*Sim).v1Models},
	{script.V1, script.OpRepositories, "GET", "/v1/repositories", false, (*Sim).v1Repositories},
	{script.V1, script.OpCreate, "POST", "/v1/agents", true, (*Sim).v1Create},
	{script.V1, script.OpList, "GET", "/v1/agents", false, (*Sim).v1List},
	{script.V1, script.OpGet, "GET", "/v1/agents/{id}", false, (*Sim).v1Get},
	{script.V1, script.OpDelete, "DELETE", "/v1/agents/{id}", false, (*Sim).v1Delete},
	{script.V1, script.OpArchive, "POST", "/v1/agents/{id}/archive", false, (*Sim).v1Archive},
	{script.V1, script.OpUnarchive, "POST", "/v1/agents/{id}/unarchive", false, (*Sim).v1Unarchive},
	{script.V1, script.OpFollowup, "POST", "/v1/agents/{id}/runs", true, (*Sim).v1CreateRun},
	{script.V1, script.OpRuns, "GET", "/v1/agents/{id}/runs", false, (*Sim).v1Runs},
	{script.V1, script.OpRun, "GET", "/v1/agents/{id}/runs/{runId}", false, (*Sim).v1Run},
	{script.V1, script.OpStream, "GET", "/v1/agents/{id}/runs/{runId}/stream", false, (*Sim).v1Stream},
	{script.V1, script.OpCancel, "POST", "/v1/agents/{id}/runs/{runId}/cancel", false, (*Sim).v1Cancel},
	{script.V1, script.OpUsage, "GET", "/v1/agents/{id}/usage", false, (*Sim).v1Usage},
	{script.V1, script.OpArtifacts, "GET", "/v1/agents/{id}/artifacts", false, (*Sim).v1Artifacts},
	{script.V1, script.OpDownload, "GET", "/v1/agents/{id}/artifacts/download", false, (*Sim).v1Download},
}

func (s *Sim) router() http.Handler {
	// Without SkipClean the router would answer // and .. with a redirect, even to a POST.
	r := mux.NewRouter().SkipClean(true)
	for _, e := range endpoints {
		r.Handle(e.path, s.serve(e)).Methods(e.method)
	}
	s.control(r)
	r.NotFoundHandler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		s.fail(w, &call{req: req, api: apiOf(req)}, request.Refuse(http.StatusNotFound, "not_found", "No such endpoint"))
	})
	r.MethodNotAllowedHandler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		// mux leaves the Allow header out, which RFC 9110 requires on a 405.
		w.Header().Set("Allow", strings.Join(allowed(r, req), ", "))
		s.fail(w, &call{req: req, api: apiOf(req)}, request.Refuse(http.StatusMethodNotAllowed, "method_not_allowed", "Method not allowed"))
	})
	return r
}

func allowed(r *mux.Router, req *http.Request) []string {
	var methods []string
	for _, m := range []string{http.MethodDelete, http.MethodGet, http.MethodPost} {
		probe := req.Clone(req.Context())
		probe.Method = m
		var match mux.RouteMatch
		if r.Match(probe, &match) && match.MatchErr == nil {
			methods = append(methods, m)
		}
	}
	return methods
}
