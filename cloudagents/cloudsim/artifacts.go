package cloudsim

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"drawbridge/cloudagents/cloudsim/internal/request"
)

const (
	linkPrefix   = "/_sim/artifacts/"
	linkLife     = 15 * time.Minute
	maxArtifacts = 100
	v0Folder     = "/opt/cursor/artifacts/"
	v1Folder     = "artifacts/"
	// v0 shows artifacts of agents up to six months old.
	v0ArtifactAge = 183 * 24 * time.Hour
)

func pathVar(c *call, name string) string { return mux.Vars(c.req)[name] }

type v0Artifact struct {
	Path      string `json:"absolutePath"`
	Size      int    `json:"sizeBytes"`
	UpdatedAt string `json:"updatedAt"`
}

type v1Artifact struct {
	Path      string `json:"path"`
	Size      int    `json:"sizeBytes"`
	UpdatedAt string `json:"updatedAt"`
}

func (s *Sim) v0Artifacts(c *call) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.v0FindArtifacts(c)
	if err != nil {
		return reply{}, err
	}
	list := []v0Artifact{}
	for _, f := range a.artifacts[:min(len(a.artifacts), maxArtifacts)] {
		list = append(list, v0Artifact{v0Folder + f.Path, len(f.Content), stamp(f.updatedAt)})
	}
	return ok(map[string]any{"artifacts": list})
}

func (s *Sim) v0FindArtifacts(c *call) (*agent, error) {
	a, err := s.v0Find(c, false)
	if err == nil && s.now().Sub(a.createdAt) > v0ArtifactAge {
		return nil, request.Invalid("Artifacts of agents older than 6 months have expired")
	}
	return a, err
}

func (s *Sim) v1Artifacts(c *call) (reply, error) {
	return s.withAgent(c, func(a *agent) (reply, error) {
		list := []v1Artifact{}
		for _, f := range a.artifacts[:min(len(a.artifacts), maxArtifacts)] {
			list = append(list, v1Artifact{v1Folder + f.Path, len(f.Content), stamp(f.updatedAt)})
		}
		return ok(map[string]any{"items": list})
	})
}

func (s *Sim) v0Download(c *call) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.v0FindArtifacts(c)
	if err != nil {
		return reply{}, err
	}
	return s.download(c, a, v0Folder)
}

func (s *Sim) v1Download(c *call) (reply, error) {
	return s.withAgent(c, func(a *agent) (reply, error) { return s.download(c, a, v1Folder) })
}

// download hands out a link to this server that needs no key and expires, as the vendor's storage links do.
func (s *Sim) download(c *call, a *agent, folder string) (reply, error) {
	asked := c.req.URL.Query().Get("path")
	name, inside := strings.CutPrefix(asked, folder)
	if asked == "" || !inside {
		return reply{}, request.Invalid("path must start with %s", folder)
	}
	if _, found := a.file(name); !found {
		return reply{}, request.Refuse(http.StatusNotFound, "artifact_not_found", "Artifact not found")
	}
	expires := s.now().Add(linkLife)
	q := url.Values{"path": {name}, "expires": {strconv.FormatInt(expires.Unix(), 10)}}
	q.Set("signature", s.sign(a.id, name, q.Get("expires")))
	link := url.URL{Scheme: "http", Host: c.req.Host, Path: linkPrefix + a.id, RawQuery: q.Encode()}
	return ok(map[string]any{"url": link.String(), "expiresAt": stamp(expires)})
}

func (a *agent) file(name string) (artifact, bool) {
	for _, f := range a.artifacts {
		if f.Path == name {
			return f, true
		}
	}
	return artifact{}, false
}

func (s *Sim) sign(parts ...string) string {
	mac := hmac.New(sha256.New, []byte(s.linkSecret))
	_, _ = fmt.Fprintf(mac, "%q", parts)
	return hex.EncodeToString(mac.Sum(nil))
}

func (s *Sim) serveArtifact(w http.ResponseWriter, req *http.Request) {
	id, q := mux.Vars(req)["id"], req.URL.Query()
	s.mu.Lock()
	defer s.mu.Unlock()
	expires, err := strconv.ParseInt(q.Get("expires"), 10, 64)
	proven := hmac.Equal([]byte(q.Get("signature")), []byte(s.sign(id, q.Get("path"), q.Get("expires"))))
	a := s.lookup(id)
	if err != nil || !proven || a == nil || a.deleted || !s.now().Before(time.Unix(expires, 0)) {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	f, _ := a.file(q.Get("path"))
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = io.WriteString(w, f.Content)
}
