package workspace

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"drawbridge/relay/runner/output"
)

const (
	maxIgnoreFile  = 1 << 20
	maxIgnoreFiles = 10_000
	// maxIgnoreArgs bounds the paths of one question to git, in bytes.
	maxIgnoreArgs = 96 << 10
	maxShown      = 200
)

// ignores tells which paths the .gitignore files of a tree name. Git reads copies of these files in a folder of ours, so that it
// sees neither the agent's repository nor anything else in the tree.
type ignores struct {
	v     *view
	dir   string
	files int
}

func newIgnores(v *view) (*ignores, error) {
	dir := filepath.Join(v.s.dir, lookName, "ignores")
	if err := forget(dir); err != nil {
		return nil, err
	}
	return &ignores{v: v, dir: dir}, os.MkdirAll(dir, 0o700)
}

// take copies one .gitignore. One that cannot be read names nothing, so that more files count as work.
func (g *ignores) take(root *os.Root, name string) {
	if g.files++; g.files > maxIgnoreFiles {
		return
	}
	data, err := readSmall(root, name, maxIgnoreFile)
	if err != nil {
		return
	}
	place := filepath.Join(g.dir, filepath.FromSlash(name))
	if os.MkdirAll(filepath.Dir(place), 0o700) == nil {
		_ = os.WriteFile(place, data, 0o600)
	}
}

// judge returns which of the candidates are ignored. The paths of folders end with a slash.
func (g *ignores) judge(ctx context.Context, candidates []string) (map[string]bool, error) {
	ignored := map[string]bool{}
	if g.files == 0 {
		return ignored, nil
	}
	for len(candidates) > 0 {
		n, size := 0, 0
		for n < len(candidates) && (n == 0 || size+len(candidates[n]) < maxIgnoreArgs && n < 2000) {
			size += len(candidates[n])
			n++
		}
		if err := g.ask(ctx, candidates[:n], ignored); err != nil {
			return nil, err
		}
		candidates = candidates[n:]
	}
	return ignored, nil
}

func (g *ignores) ask(ctx context.Context, candidates []string, ignored map[string]bool) error {
	args := []string{"check-ignore", "--no-index", "--"}
	for _, name := range candidates {
		if dir, isDir := strings.CutSuffix(name, "/"); isDir {
			// A pattern such as build/ names folders alone, so there has to be one.
			if err := os.MkdirAll(filepath.Join(g.dir, filepath.FromSlash(dir)), 0o700); err != nil {
				return err
			}
			name = dir
		}
		args = append(args, filepath.Join(g.dir, filepath.FromSlash(name)))
	}
	out, err := g.v.s.store.git.do(ctx, call{repo: g.v.dir(), args: args, env: []string{"GIT_WORK_TREE=" + g.dir, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.bare", "GIT_CONFIG_VALUE_0=false"}})
	if err != nil && exit(err) != 1 { // 1: none of them
		return err
	}
	for line := range strings.Lines(out) {
		path := strings.TrimSuffix(line, "\n")
		if plain, err := strconv.Unquote(path); err == nil && path[0] == '"' { // git quotes as C does
			path = plain
		}
		if name, err := filepath.Rel(g.dir, path); err == nil {
			name = filepath.ToSlash(name)
			ignored[name], ignored[name+"/"] = true, true
		}
	}
	// A name with a slash at its end is a folder, the same name without one a file; both cannot be candidates.
	return nil
}

// shown is a name of the agent for people: bounded and escaped.
func shown(name string) string {
	if len(name) > maxShown {
		name = strings.ToValidUTF8(name[:maxShown], "") + "..."
	}
	return output.Line(name)
}
