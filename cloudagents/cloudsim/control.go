package cloudsim

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/gorilla/mux"

	"drawbridge/cloudagents/cloudsim/internal/request"
	"drawbridge/cloudagents/cloudsim/script"
)

// EffectKind names what happened to an agent or a run.
type EffectKind string

// The effects.
const (
	AgentCreated     EffectKind = "agent_created"     // with its first run, which has no entry of its own
	RunCreated       EffectKind = "run_created"       // a follow-up was accepted; in v0 it may wait behind the active run
	RunCancelled     EffectKind = "run_cancelled"     // also for a v0 stop
	FollowupDropped  EffectKind = "followup_dropped"  // an accepted v0 follow-up that a stop or a delete kept from running
	AgentArchived    EffectKind = "agent_archived"    //
	AgentUnarchived  EffectKind = "agent_unarchived"  //
	AgentDeleted     EffectKind = "agent_deleted"     // an active run ends with it
	DuplicateRefused EffectKind = "duplicate_refused" // a create with an agentId that is taken; nothing was created
)

// Effect is one entry of the log: something that really happened, whatever the caller was told.
type Effect struct {
	Seq     int        `json:"seq"` // from 1, without gaps
	At      time.Time  `json:"at"`
	Kind    EffectKind `json:"kind"`
	API     script.API `json:"api"`
	AgentID string     `json:"agentId"`
	RunID   string     `json:"runId,omitempty"`
	Repo    string     `json:"repo,omitempty"` // as asked, without scheme
	Prompt  string     `json:"prompt,omitempty"`
	Branch  string     `json:"branch,omitempty"` // v0 target.branchName as asked
}

// record adds to the log. The caller holds the lock.
func (s *Sim) record(e Effect) {
	e.Seq, e.At = len(s.effects)+1, s.now()
	s.effects = append(s.effects, e)
}

// Log is every effect so far, oldest first.
func (s *Sim) Log() []Effect {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Effect{}, s.effects...)
}

// Deliveries is every webhook attempt so far, oldest first.
func (s *Sim) Deliveries() []Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Delivery{}, s.deliveries...)
}

// AddFault switches f on in addition to the faults that are. The error says what is wrong with f.
func (s *Sim) AddFault(f script.Fault) error {
	if err := f.Check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.Add(f)
	return nil
}

// ClearFaults switches every fault off. What a fault did to agents and runs that exist stays.
func (s *Sim) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.Clear()
}

// Faults lists the faults that can still strike; Times is what is left, 0 for those without end.
func (s *Sim) Faults() []script.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults.Active()
}

// State is everything the simulator knows.
type State struct {
	Agents     []AgentState   `json:"agents"` // oldest first, deleted ones included
	Deliveries []Delivery     `json:"deliveries"`
	Faults     []script.Fault `json:"faults"`
}

// AgentState is one agent in a [State].
type AgentState struct {
	ID   string     `json:"id"`
	API  script.API `json:"api"`
	Name string     `json:"name"`
	Repo string     `json:"repo,omitempty"`
	// Servers are the remote tool servers of the latest run.
	Servers  []request.Server `json:"mcpServers,omitempty"`
	Archived bool             `json:"archived,omitempty"`
	Deleted  bool             `json:"deleted,omitempty"`
	Runs     []RunState       `json:"runs"`
	Queued   int              `json:"queued,omitempty"` // v0 follow-ups that wait
}

// RunState is one run in a [State].
type RunState struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Prompt string `json:"prompt"`
	Result string `json:"result,omitempty"`
}

// State takes a snapshot.
func (s *Sim) State() State {
	out := State{Agents: []AgentState{}, Deliveries: s.Deliveries(), Faults: s.Faults()}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.order {
		v := AgentState{
			ID: a.id, API: a.API, Name: a.displayName(), Repo: a.Repo(), Servers: a.Servers, Archived: a.archived, Deleted: a.deleted, Queued: len(a.queue),
		}
		for _, r := range a.runs {
			v.Runs = append(v.Runs, RunState{ID: r.id, Status: r.status, Prompt: r.prompt, Result: r.result})
		}
		out.Agents = append(out.Agents, v)
	}
	return out
}

// control adds the simulator's own endpoints. They need the key too, all but the artifact links.
func (s *Sim) control(r *mux.Router) {
	get := func(path string, read func() any) {
		r.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { request.WriteJSON(w, http.StatusOK, read()) }).Methods("GET")
	}
	get("/_sim/log", func() any { return s.Log() })
	get("/_sim/state", func() any { return s.State() })
	get("/_sim/faults", func() any { return s.Faults() })
	r.HandleFunc("/_sim/faults", s.postFaults).Methods("POST")
	r.HandleFunc("/_sim/faults", func(w http.ResponseWriter, _ *http.Request) {
		s.ClearFaults()
		request.WriteJSON(w, http.StatusOK, s.Faults())
	}).Methods("DELETE")
	r.HandleFunc(linkPrefix+"{id}", s.serveArtifact).Methods("GET")
}

// postFaults switches on one fault or a list of them, all or none, and answers with those that are on.
func (s *Sim) postFaults(w http.ResponseWriter, req *http.Request) {
	faults, err := readFaults(http.MaxBytesReader(w, req.Body, 1<<20))
	for _, f := range faults {
		err = errors.Join(err, f.Check())
	}
	if err != nil {
		request.Invalid("%v", err).Write(w)
		return
	}
	s.mu.Lock()
	for _, f := range faults {
		s.faults.Add(f)
	}
	s.mu.Unlock()
	request.WriteJSON(w, http.StatusOK, s.Faults())
}

func readFaults(r io.Reader) ([]script.Fault, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		var list []script.Fault
		err := d.Decode(&list)
		return slices.Clip(list), err
	}
	var one script.Fault
	err = d.Decode(&one)
	return []script.Fault{one}, err
}
