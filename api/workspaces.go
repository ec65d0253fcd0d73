package api

import (
	"context"
	"net/http"

	"drawbridge/internal/httpx"
)

// Workspace is the workspace of an agent on a person's machine, as the relay there read it from git.
type Workspace struct {
	Relay string `json:"relay"`
	// Name is the workspace's name on that machine; Agent is the bridge's name of the agent to which it belongs, "" for an agent that is gone.
	Name  string `json:"name"`
	Agent string `json:"agent,omitempty"`
	Path  string `json:"path,omitempty"`
	// Branch is the branch that is checked out, "" for none; Head is the commit.
	Branch string `json:"branch,omitempty"`
	Head   string `json:"head,omitempty"`
	// Dirty counts files that are in no commit, Unfetched commits that the listed clone does not have. Bytes is the size on the disk.
	Dirty     int   `json:"dirty"`
	Unfetched int   `json:"unfetched"`
	Bytes     int64 `json:"bytes"`
	// Unsaved says what would be lost with the workspace, a line each.
	Unsaved []string `json:"unsaved,omitempty"`
	// Error says why the relay could not read the workspace.
	Error string `json:"error,omitempty"`
}

// RelayTrouble is a relay that could not be asked, or whose list is not whole.
type RelayTrouble struct {
	Relay string `json:"relay"`
	Error string `json:"error"`
}

// WorkspaceList is what GET /v1/workspaces answers: all workspaces of all relays that host agents, and the relays that are missing from it.
type WorkspaceList struct {
	Workspaces []Workspace    `json:"workspaces"`
	Missing    []RelayTrouble `json:"missing,omitempty"`
}

func (h *Handler) listWorkspaces(w http.ResponseWriter, r *http.Request) error {
	list := WorkspaceList{Workspaces: []Workspace{}}
	if h.o.Workspaces != nil {
		var err error
		if list, err = h.o.Workspaces(r.Context()); err != nil {
			return err
		}
	}
	httpx.WriteJSON(w, http.StatusOK, list)
	return nil
}

// Workspaces lists the workspaces on the machines of all relays that host agents. It takes up to half a minute where a relay is slow.
func (c *Client) Workspaces(ctx context.Context) (WorkspaceList, error) {
	return get[WorkspaceList](ctx, c, "/v1/workspaces", nil)
}
