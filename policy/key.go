package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"drawbridge/parser"
)

// CommandKey is the identity of what a command asks for: hex SHA-256 of the verb and
// the canonical arguments. Two spellings of one repository have the same key;
// Line and Raw do not matter. Keys are stable over restarts and versions.
func CommandKey(cmd parser.Command) string {
	switch cmd.Verb {
	case parser.Subagent:
		return hashFields(string(cmd.Verb), RepoText(cmd.Repo), trimBlanks(cmd.Prompt))
	case parser.LocalAction:
		return hashFields(string(cmd.Verb), trimBlanks(cmd.Action))
	case parser.Remind:
		return hashFields(string(cmd.Verb), trimBlanks(cmd.When), trimBlanks(cmd.Message))
	case parser.WebhookResult:
		return hashFields(string(cmd.Verb), trimBlanks(cmd.AgentID), trimBlanks(cmd.Status))
	}
	return hashFields(string(cmd.Verb), cmd.Raw)
}

// exactKey tells a command from others of its turn: what is called otherwise is
// another agent, also with the same task.
func exactKey(cmd parser.Command) string {
	if cmd.Shared {
		return hashFields(CommandKey(cmd), cmd.Name, cmd.Role, cmd.Subdir, "shared")
	}
	return hashFields(CommandKey(cmd), cmd.Name, cmd.Role, cmd.Subdir)
}

// RepoText is the canonical form of a repository, or the value itself without blanks
// around it where it has none. It is for comparing and showing, never for sending.
func RepoText(value string) string {
	repo, err := CanonicalRepo(value)
	if err != nil {
		return trimBlanks(value)
	}
	return string(repo)
}

// hashFields writes each field behind its length, so that no two lists of fields
// have the same bytes.
func hashFields(fields ...string) string {
	h := sha256.New()
	for _, f := range fields {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(f)))
		h.Write(size[:])
		h.Write([]byte(f))
	}
	return hex.EncodeToString(h.Sum(nil))
}
