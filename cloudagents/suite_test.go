package cloudagents_test

import (
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/cloudagents/cloudsim"
	"drawbridge/cloudagents/cloudsim/script"
	"drawbridge/proof/runtimes"
)

// TestRuntime: the client keeps the contract of all Runtimes at both versions of the API.
func TestRuntime(t *testing.T) {
	t.Parallel()
	for api, abilities := range map[string]runtimes.Abilities{
		bridge.APIv1: {Repeats: true, Busy: true, Cancelled: true, Follows: true, Inspects: true},
		bridge.APIv0: {Inspects: true},
	} {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			runtimes.Run(t, runtimes.Suite{Abilities: abilities, New: func(t *testing.T) runtimes.World {
				return runtimeWorld(newWorldWith(t, api, suiteScript))
			}})
		})
	}
}

const suiteScript = `
keys: [` + testKey + `]
latency: 20ms
agents:
  - repo: ` + runtimes.Repo + `
    turns:
      - { match: ` + runtimes.NeverEnds + `, reply: too late, after: 1h }
      - { match: ` + runtimes.Fails + `, status: ERROR }
      - reply: "You said: {{.Prompt}}"
`

func runtimeWorld(w world) runtimes.World {
	once := func(f cloudsim.Fault) func() {
		return func() {
			f.Times = 1
			if err := w.sim.AddFault(f); err != nil {
				w.Fatal(err)
			}
		}
	}
	return runtimes.World{
		Runtime: w.Client, API: w.api,
		Made:       func() (int, int) { return w.effects(cloudsim.AgentCreated), w.effects(cloudsim.RunCreated) },
		LoseLaunch: once(cloudsim.Fault{Kind: script.LostCreateResponse}),
		LoseSend:   once(cloudsim.Fault{Kind: script.FollowupLostResponse}),
		Refuse: map[bridge.ErrorKind]func(){
			bridge.RateLimited:  once(cloudsim.Fault{Kind: script.RateLimit, Op: script.OpCreate, Delay: script.Duration(time.Second)}),
			bridge.UsageLimited: once(cloudsim.Fault{Kind: script.UsageLimit}),
			bridge.Unavailable:  once(cloudsim.Fault{Kind: script.Create5xx}),
		},
	}
}
