package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"drawbridge/cloudagents/cloudsim"
	"drawbridge/cloudagents/cloudsim/script"
	"drawbridge/config"
)

type cloudsimCmd struct {
	Listen string `help:"Listen on this loopback address. Port 0 chooses a free port." default:"127.0.0.1:7411"`
	Script string `help:"Read the agents' answers and the faults from this YAML file. Without a file, the stand-in plays a small story." placeholder:"FILE" type:"path"`
}

// Help shows an example and the format of a script.
func (cloudsimCmd) Help() string {
	return "The stand-in serves v0 and v1 of the API on this machine, with state, streams, signed webhooks and scripted agents. It accepts the API key " + cloudsim.DefaultKey + ", or those under keys: in the script." + cloudsimHelp
}

const cloudsimHelp = `

Without --script the first turn of an agent on the orchestrator's repository launches a subagent and runs an action. Repositories and action are those of bridge.yaml and allowlist.yaml in this folder, or else those of the tutorial. Every other agent answers Done.

Example:
  drawbridge cloudsim --listen 127.0.0.1:7411 --script story.yaml
and for the bridge beside it, in bridge.yaml:
  cursor: { url: "http://127.0.0.1:7411", key: "${CURSOR_API_KEY}" }
with CURSOR_API_KEY=` + cloudsim.DefaultKey + ` in the environment

A script (every key is optional; the first rule and turn that fit answer):
  latency: 200ms                     # from a run's creation to its end
  agents:
    - repo: github.com/me/agent-env  # * fits a whole segment; none: agents without a repository
      turns:
        - match: health check        # a part of the prompt; or regexp: an expression
          once: true                 # an agent has this turn once
          reply: |
            SUBAGENT: repo=github.com/me/my-app, prompt=Add GET /health
            LOCAL_ACTION: backup_script
        - reply: "You said: {{.Prompt}}"   # also {{.Repo}}, {{.AgentID}}, {{.Turn}}
    - repo: github.com/me/my-app
      turns:
        - { reply: Added., branch: health, pr: "https://github.com/me/my-app/pull/1", after: 1s }
        - { match: break, status: ERROR }  # FINISHED, ERROR or EXPIRED
  default: { reply: Done. }
  faults:
    - { fault: create_5xx, status: 503, times: 2 }`

// Run serves until the process is told to stop.
func (c cloudsimCmd) Run(ctx context.Context, a app) error {
	opts := cloudsim.Options{}
	var told string
	if c.Script != "" {
		text, err := cloudsim.LoadScript(c.Script)
		if err != nil {
			return usageError{err}
		}
		opts.Script = text
	} else {
		opts.Script, told = sampleStory(a)
	}
	sim, err := cloudsim.New(opts)
	if err != nil {
		return usageError{err}
	}
	server := cloudsim.NewServer(sim, c.Listen)
	if err := server.Start(); err != nil {
		return usageError{fmt.Errorf("start the stand-in: %w", err)}
	}
	fmt.Fprintf(a.stderr, "cloudsim ready %s\n%s", server.URL(), told)
	<-ctx.Done()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return server.Stop(stop)
}

// sampleStory is what agents answer without a script: an orchestrator that delegates once and runs an action once. told
// says so to the person who started it.
func sampleStory(a app) (s *script.Script, told string) {
	there, _ := config.ReadSamples("bridge.yaml", "allowlist.yaml", a.getenv) // files with problems are for check to tell of
	own, app, action := cmp.Or(there.Repo, "github.com/me/agent-env"), "github.com/me/my-app", "backup_script"
	if len(there.Repos) > 0 {
		app = strings.Replace(there.Repos[0], "/*", "/my-app", 1)
	}
	if len(there.Actions) > 0 {
		action = there.Actions[0]
	}
	ask := fmt.Sprintf("I pass this on.\nSUBAGENT: repo=%s, prompt=Add a health check endpoint at GET /health that returns 200\nLOCAL_ACTION: %s\n", app, action)
	s = &script.Script{Agents: []script.AgentRule{
		{Repo: own, Turns: []script.Turn{{Once: true, Reply: ask}, {Reply: "Noted. There is nothing more to ask for."}}},
		{Repo: app, Turns: []script.Turn{{Reply: "I added GET /health and a test for it.", Branch: "add-health-check", PR: "https://" + app + "/pull/1"}}},
	}}
	return s, fmt.Sprintf("story: an agent on %s launches one on %s and runs %s; every other agent answers Done. (--script FILE plays another)\n", own, app, action)
}
