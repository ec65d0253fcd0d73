package demo

// The demo's story: what the agents answer, and what must have happened when it is over.

const (
	prompt = "Ship a health check for my app, have it documented, and back up my work first."
	hold   = "lock_screen"
	// relayName is what the allowlist calls the relay.
	relayName = "laptop"
)

// demoScript is the script of the simulated cloud.
const demoScript = `latency: 400ms
agents:
  - repo: github.com/me/agent-env
    turns:
      - match: "Ship a health check"
        reply: |
          I back up first, then I delegate the endpoint and its page, and lock the screen when you agree.
          LOCAL_ACTION: backup_script
          SUBAGENT: repo=github.com/me/my-app, prompt=Add a health check endpoint at GET /health that returns 200 and {"status":"ok"}
          SUBAGENT: repo=https://github.com/acme/docs.git, prompt=Document GET /health
          LOCAL_ACTION: lock_screen
          SUBAGENT: repo=github.com/evil/miner, prompt=Mine some coins
          LOCAL_ACTION: rm_everything
          - LOCAL_ACTION: open_browser
      - match: "look like commands and were not run"
        once: true
        reply: |
          Thanks for telling me. Once more, as a line of its own:
          LOCAL_ACTION: open_browser
      - reply: "Noted. Nothing more to ask."
  - repo: github.com/me/my-app
    turns:
      - after: 900ms
        reply: |
          I added GET /health and a test for it.
        branch: cursor/health-check
        pr: https://github.com/me/my-app/pull/7
  - repo: github.com/acme/docs
    turns:
      - after: 700ms
        reply: "The page docs/health.md describes GET /health."
        branch: cursor/health-page
`

// demoFaults are the faults of the cloud for each fault of the story.
var demoFaults = map[string]string{FaultNoWebhooks: "faults: [{ fault: webhook_never }]\n"}

// The faults of the story: the bridge is killed in its middle, or no webhook arrives.
const (
	FaultKill       = "kill"
	FaultNoWebhooks = "no-webhooks"
)

// demoAllowlist is what the demo's user allows.
const demoAllowlist = `repos:
  - github.com/me/my-app
  - { repo: github.com/acme/*, api: v0 }
actions:
  backup_script: { relay: laptop }
  open_browser:  { relay: laptop }
  lock_screen:   { relay: laptop, approval: each }
limits:
  commands_per_turn: 10
  launches_per_hour: 20
  open_subagents: 10
  depth: 1
`
