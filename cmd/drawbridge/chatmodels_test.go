package main

import (
	"encoding/json"
	"net/http/httptest"
	"os"

	"github.com/rogpeppe/go-internal/testscript"

	"drawbridge/proof/chatsim"
)

// modelKey is what the stand-in for a chat model asks for.
const modelKey = "sk-stand-in-0123456789abcdef0123456789"

// startModel is "model <script.json> [streams]": it serves a strict chat completions endpoint at $MODEL until the script ends, and writes its
// key into model.key. What it was asked is at $MODEL/_log.
func startModel(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: model <script.json> [streams]")
	}
	var turns []chatsim.Turn
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &turns))
	server := httptest.NewServer(&chatsim.Server{Key: modelKey, Models: []string{"qwen3:8b"}, Streams: len(args) == 2, Answer: chatsim.Scripted(turns)})
	ts.Defer(func() {
		server.CloseClientConnections()
		server.Close()
	})
	secrets.add(modelKey)
	ts.Setenv("MODEL", server.URL)
	ts.Check(os.WriteFile(ts.MkAbs("model.key"), []byte(modelKey), 0o600))
}
