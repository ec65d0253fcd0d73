package wire

import (
	"errors"
	"fmt"
	"strings"
)

// Bounds of a [Home], in bytes.
const (
	maxHomeRepo   = 160
	maxHomeRef    = 255
	maxHomeSubdir = 1024
)

// Home says where an agent of a relay works. The relay makes the place for the first turn of a session and keeps it for later ones.
type Home struct {
	// Name is the name of the agent's workspace, see [ValidHome]. No other agent of the bridge has it.
	Name string `json:"name"`
	// Repo is a repository as relay.yaml lists it below repos:, for a workspace of the agent's own.
	Repo string `json:"repo,omitempty"`
	// Ref is the branch at which the workspace begins, and "" for the commit that the listed clone has checked out.
	Ref string `json:"ref,omitempty"`
	// Within is the workspace in which the agent works when it has none of its own: that of its parent, or of the parent's parent.
	// Exactly one of Repo and Within is set.
	Within string `json:"within,omitempty"`
	// Subdir is a folder below the workspace Within, with / between its parts; the relay makes it where it does not exist.
	Subdir string `json:"subdir,omitempty"`
	// ReadOnly is true for an agent that may change nothing where it works.
	ReadOnly bool `json:"read_only,omitempty"`
}

// ValidHome reports whether name may name a workspace: 1 to 64 characters of [a-z0-9_.-], with a letter or digit at the beginning, no
// dot at the end, no ".." and no ".lock" at the end. It names a branch, too.
func ValidHome(name string) bool {
	return ValidAction(name) && !strings.Contains(name, "..") && !strings.HasSuffix(name, ".") && !strings.HasSuffix(name, ".lock")
}

// Check reports what no bridge writes. The zero Home says nothing and is fine: a session that exists goes on where it is.
func (h Home) Check() error {
	switch {
	case h == Home{}:
		return nil
	case !ValidHome(h.Name):
		return errors.New("the turn's workspace has a malformed name")
	case (h.Repo == "") == (h.Within == ""):
		return errors.New("the turn must name either a repository or another agent's workspace, but not both")
	case h.Within != "" && (!ValidHome(h.Within) || h.Within == h.Name || h.Ref != ""):
		return errors.New("the turn's other workspace is malformed, is the agent's own, or has a branch")
	case h.Repo != "" && h.Subdir != "":
		return errors.New("the turn names a folder, which an agent with its own workspace cannot have")
	}
	return errors.Join(plain("repository", h.Repo, maxHomeRepo), plain("branch", h.Ref, maxHomeRef), h.checkSubdir())
}

func (h Home) checkSubdir() error {
	if h.Subdir == "" {
		return nil
	}
	for part := range strings.SplitSeq(h.Subdir, "/") {
		if part == "" || part == "." || part == ".." {
			return errors.New("the turn's folder is not a plain path below a workspace")
		}
	}
	return plain("folder", h.Subdir, maxHomeSubdir)
}

// plain refuses a word that a program could read as an option, and one with control characters.
func plain(what, text string, limit int) error {
	if strings.HasPrefix(text, "-") || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("the turn's %s begins with - or holds a control character", what)
	}
	return checkText("the turn's "+what, text, limit)
}
