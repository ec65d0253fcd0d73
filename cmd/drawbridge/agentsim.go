package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"drawbridge/internal/httpx"
	"drawbridge/openai/cursor/agentsim"
)

type agentsimCmd struct {
	Listen string `help:"Listen on this loopback address. Port 0 chooses a free port." default:"127.0.0.1:7421"`
	Script string `help:"Read the models' answers and the faults from this YAML file. Without a file, the stand-in plays a small story." placeholder:"FILE" type:"path"`
	Log    string `help:"Write each message in both directions into this file, one line of JSON each." placeholder:"FILE" type:"path"`
	Strict bool   `help:"End a run in which the client breaks a rule of the protocol. Without --strict, only the log tells it."`
}

// Help shows an example and the format of a script.
func (agentsimCmd) Help() string {
	return "The stand-in plays the agent service for upstreams of the kind cursor. It accepts the API key " + agentsim.DefaultKey + ", or those under keys: in the script. Its models are composer-2, gpt-4o and default." + agentsimHelp
}

const agentsimHelp = `

Without --script, the model answers in a sentence. If the user says "echo hello" and the client offers a tool bash, the model calls that tool once.

Example:
  drawbridge agentsim --listen 127.0.0.1:7421 --script story.yaml --log messages.jsonl
and for the bridge beside it, in bridge.yaml:
  openai:
    listen: 127.0.0.1:18741
    upstreams:
      sim: { kind: cursor, i_know: true, url: "http://127.0.0.1:7421", key: "${SIM_KEY}" }
with SIM_KEY=` + agentsim.DefaultKey + ` in the environment

A script (every key is optional; the first turn that fits answers):
  models:
    - { id: composer-2, name: Composer, aliases: [composer] }
  turns:
    - match: run the tests                # a part of the user's words
      tools: [bash]                       # the client has to offer these tools
      steps:                              # each step does one thing
        - thinking: "I need the shell. "
        - text: "I run them. "
        - calls: [{ name: bash, args: { command: make test } }]   # several calls leave at once
        - text: "They said: {{.Result}}"  # also {{.Text}}
    - match: look
      steps:
        - exec: { read_args: { path: a.txt } }    # a tool of the service's own; withdraw: TEXT takes it back when its result says so
        - query: web_search_request_query
        - bytes: 00ffffffff                       # into the stream as they are: a frame of 4 GiB
        - { wait: 10s }                           # with heartbeats; silence: without
        - checkpoint: true
        - error: { code: resource_exhausted, kind: 9, title: Usage limit, detail: Wait. }
    - { match: break, try: 1, steps: [{ text: half }, { end: cut }] }   # cut or clean
    - { match: hang, steps: [{ stall: true }] }
  faults:                                 # of the calls run (over HTTP/1.1), append, exchange and models
    - { call: run, status: 503, times: 2, retry_after: 1 }`

// Run serves until the process is told to stop.
func (c agentsimCmd) Run(ctx context.Context, a app) (err error) {
	o := agentsim.Options{Strict: c.Strict}
	if c.Script != "" {
		if o.Script, err = agentsim.Load(c.Script); err != nil {
			return usageError{err}
		}
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil || !httpx.Loopback(host) {
		return usageError{fmt.Errorf("--listen %q is not a loopback address; write 127.0.0.1:7421", c.Listen)}
	}
	if c.Log != "" {
		f, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return usageError{fmt.Errorf("--log: %w", err)}
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		o.Log = f
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return httpx.ListenError(c.Listen, "--listen", err)
	}
	server := &http.Server{Handler: agentsim.New(o), ReadHeaderTimeout: 10 * time.Second, Protocols: &http.Protocols{}}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	fmt.Fprintf(a.stderr, "agentsim ready http://%s\n", l.Addr())
	select {
	case <-ctx.Done():
		return server.Close()
	case err := <-served:
		return err
	}
}
