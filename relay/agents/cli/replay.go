package cli

import (
	"bufio"
	"encoding/json"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"drawbridge/internal/loosejson"
	"drawbridge/relay/agents/acp"
	"drawbridge/relay/runner/settings"
)

// Bounds of what is read of an agent's own files, which the agent can write.
const (
	// maxFolders bounds the folders that are looked into, maxNames the names of one folder.
	maxFolders = 2000
	maxNames   = 10_000
	// maxReplay bounds what is kept of a session, in bytes; the oldest part goes first.
	maxReplay = 8 << 20
)

// history is where a program keeps its sessions below its HOME, and how it writes a message there.
type history struct {
	// folder holds the files, so many folders down.
	folder string
	depth  int
	// moved is the variable with which the folder is another one.
	moved string
	// read makes the messages of a line.
	read func(line []byte) []acp.Said
}

var histories = map[string]history{
	settings.FormatClaudeStream: {folder: ".claude/projects", depth: 1, moved: "CLAUDE_CONFIG_DIR", read: claudeLine},
	settings.FormatCodex:        {folder: ".codex/sessions", depth: 3, moved: "CODEX_HOME", read: codexLine},
}

// plainID is what the id of a session looks like that is part of a file's name.
var plainID = regexp.MustCompile(`^[A-Za-z0-9-]{8,64}$`)

// replay reads what a program has of a session from the file in which it keeps it. known is false when there is not one such file, or when
// it cannot be read to its end.
func replay(home string, entry settings.Agent, session string) (said []acp.Said, known bool) {
	h, has := histories[entry.Template.Format]
	if !has || !plainID.MatchString(session) || slices.ContainsFunc(entry.Env, func(v settings.EnvVar) bool { return v.Name == h.moved }) {
		return nil, false
	}
	root, err := os.OpenRoot(home)
	if err != nil {
		return nil, false
	}
	defer root.Close()
	found := find(root, h, session)
	if len(found) != 1 {
		return nil, false
	}
	// The agent may have put a pipe there.
	file, err := root.OpenFile(found[0], os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, false
	}
	defer file.Close()
	if stat, err := file.Stat(); err != nil || !stat.Mode().IsRegular() {
		return nil, false
	}
	return messages(bufio.NewScanner(file), h.read)
}

// find returns the files whose name ends with the session's id.
func find(root *os.Root, h history, session string) (found []string) {
	level := []string{h.folder}
	for range h.depth {
		var next []string
		for _, folder := range level {
			for _, name := range names(root, folder) {
				if next = append(next, path.Join(folder, name)); len(next) > maxFolders {
					return nil
				}
			}
		}
		level = next
	}
	for _, folder := range level {
		for _, name := range names(root, folder) {
			if id, is := strings.CutSuffix(name, ".jsonl"); is && (id == session || strings.HasSuffix(id, "-"+session)) {
				found = append(found, path.Join(folder, name))
			}
		}
	}
	return found
}

// names are the names in a folder, nothing for what is not one.
func names(root *os.Root, folder string) []string {
	dir, err := root.OpenFile(folder, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil
	}
	defer dir.Close()
	list, _ := dir.Readdirnames(maxNames) // an error leaves those that were read
	return list
}

func messages(lines *bufio.Scanner, read func([]byte) []acp.Said) (said []acp.Said, known bool) {
	lines.Buffer(nil, maxLine)
	size := 0
	for lines.Scan() {
		for _, m := range read(lines.Bytes()) {
			said, size, known = append(said, m), size+len(m.Text), known || m.User
		}
		for ; size > maxReplay && len(said) > 1; said = said[1:] {
			size -= len(said[0].Text)
		}
	}
	return said, known && lines.Err() == nil
}

// claudeLine reads a line of Claude Code's. Its own words about an error of its model's are not an answer.
func claudeLine(line []byte) (said []acp.Said) {
	var l struct {
		Type                string
		IsMeta, IsSidechain bool
		APIError            bool `json:"isApiErrorMessage"`
		Message             struct{ Content json.RawMessage }
	}
	if json.Unmarshal(line, &l) != nil || l.IsMeta || l.IsSidechain || l.APIError || l.Type != "user" && l.Type != "assistant" {
		return nil
	}
	user := l.Type == "user"
	var text string
	if json.Unmarshal(l.Message.Content, &text) == nil {
		return []acp.Said{{User: user, Text: text}}
	}
	for _, b := range blocks(l.Message.Content) {
		switch {
		case b.Type == "text":
			said = append(said, acp.Said{User: user, Text: loosejson.Text(b.Text)})
		case b.Type == "tool_use":
			said = append(said, acp.Said{Tool: true})
		}
	}
	return said
}

// codexLine reads a line of Codex's.
func codexLine(line []byte) (said []acp.Said) {
	var l struct {
		Type    string
		Payload struct {
			Type, Role string
			Content    json.RawMessage
		}
	}
	if json.Unmarshal(line, &l) != nil || l.Type != "response_item" {
		return nil
	}
	switch p := l.Payload; {
	case p.Type == "message" && (p.Role == "user" || p.Role == "assistant"):
		text := ""
		for _, b := range blocks(p.Content) {
			text += loosejson.Text(b.Text)
		}
		return []acp.Said{{User: p.Role == "user", Text: text}}
	case strings.HasSuffix(p.Type, "_call"):
		return []acp.Said{{Tool: true}}
	}
	return nil
}
