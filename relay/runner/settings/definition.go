package settings

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Definition is the hex digest of everything that an approval covers: the id, what is executed and with what, the bounds,
// the files that it relies on, and the program's own digest (Cursor CVE-2025-54136: an approved entry was changed later). It is keyed, because it leaves
// the machine and a value of the environment could be guessed from a plain digest.
func (a Action) Definition(id, program string, key []byte) string {
	env := make([][2]string, len(a.Env))
	for i, v := range a.Env {
		env[i] = [2]string{v.Name, v.Value}
	}
	// The order of the fields is the order of the digest; a new field is a new digest, which asks again, unless it is left out when empty.
	text, err := json.Marshal(struct {
		ID, Program, SHA256, Dir string
		Argv                     []string
		Env                      [][2]string
		Timeout                  int64
		Output, Concurrency      int
		Processes                int
		Approval, By             string
		Idempotent               bool
		Sandbox                  *Sandbox
		Bounds                   Bounds `json:",omitzero"`
		Files                    []File `json:",omitempty"`
	}{
		id, program, a.SHA256, a.Dir, a.Argv, env, int64(a.Timeout), a.Output, a.Concurrency, a.Processes,
		a.Approval.String(), a.Approval.By, a.Idempotent, a.Sandbox, a.Bounds, a.Files,
	})
	if err != nil {
		// Strings, numbers and truths always encode.
		panic(err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(text)
	return hex.EncodeToString(mac.Sum(nil))
}

// ArgvHash is the hex SHA-256 of the argument vector, for the audit: it tells two command lines apart without showing one.
func (a Action) ArgvHash() string {
	sum := sha256.New()
	for _, word := range a.Argv {
		sum.Write([]byte(word))
		sum.Write([]byte{0})
	}
	return hex.EncodeToString(sum.Sum(nil))
}
