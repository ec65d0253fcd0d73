package demo

import (
	"context"
	_ "embed" // the team's script
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
)

// teamScript says what each of the five does; proof/soak plays the same one.
//
//go:embed team.yaml
var teamScript string

const (
	teamPrompt = "Lead the team: have the words counted."
	teamResult = "The text has 19 words, and drawbridge is the longest."
	// killAtMessage is the message behind which the bridge is killed, with five agents at work.
	killAtMessage = 5
)

const teamBridge = `listen: 127.0.0.1:%s
operator: { listen: "127.0.0.1:%s" }
token: ${file:bridge.token}
key: ${file:bridge.key}
cursor: { key: "${file:cursor.key}", url: "http://127.0.0.1:9", timeout: 1s } # nobody in this story lives there
poll: { min: 300ms, max: 1s }
orchestrators: [{ name: lead, repo: github.com/me/agent-env, runtime: team, toolsets: [team, threads, memory] }]
runtimes: { team: { kind: scripted, script: team.yaml } }
`

const teamOpening = `A bridge is running on this machine, and in it a stand-in for agents that follow a script and call the bridge's tools over MCP.
The lead has a text counted: it spawns four agents, they answer by mail, two agree in a thread, one checks the sum.

`

// RunTeam tells how a team solves a task by mail, checks the result and cleans up
// behind it, as Run does. Of the faults it knows FaultKill, and it never stays up.
func RunTeam(ctx context.Context, o Options) error {
	o.Keep = false
	return tell(ctx, o, story{(*stage).startTeam, teamOpening, api.LaunchRequest{Name: "lead", Repo: "github.com/me/agent-env", Prompt: teamPrompt}, (*stage).endTeam})
}

func (s *stage) startTeam(ctx context.Context) error {
	if err := s.writeTeam(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	return s.startOne(ctx, self, s.bridgeChild())
}

func (s *stage) writeTeam() (err error) {
	for _, port := range []*string{&s.doorPort, &s.operatorPort} {
		if *port, err = s.hold(); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"bridge.yaml": fmt.Sprintf(teamBridge, s.doorPort, s.operatorPort), "allowlist.yaml": "repos: [github.com/me/my-app]\n", "team.yaml": teamScript,
		"bridge.key": secret() + "\n", "bridge.token": s.token + "\n", "cursor.key": "none\n",
	} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// endTeam shows what happens and looks where the result went.
func (s *stage) endTeam(ctx context.Context, client *api.Client, show *timeline) error {
	if err := s.followTeam(ctx, client, show); err != nil {
		return err
	}
	told, err := client.Mail(ctx, string(bridge.User), api.ListOptions{})
	if err != nil {
		return err
	}
	for _, m := range told.Messages {
		if m.Text != teamResult {
			return fmt.Errorf("the demo did not go as expected: the lead told you %q", m.Text)
		}
	}
	show.say(fmt.Sprintf("\nThe lead told you: %s\nThat is right. The team took %.1f s.\n", teamResult, time.Since(show.start).Seconds()))
	return nil
}

// followTeam shows every event until the lead has told the operator and rests.
func (s *stage) followTeam(ctx context.Context, client *api.Client, show *timeline) error {
	over, messages := errors.New("over"), 0
	err := client.Follow(ctx, 0, func(e api.Event) error {
		if err := show.show(e); err != nil {
			return err
		}
		if e.Kind == bridge.EventMessageCreated {
			if messages++; messages == killAtMessage && s.fault == FaultKill {
				return errors.Join(show.note("the bridge is killed (SIGKILL) and started again, and five agents with it"), s.killBridge(ctx))
			}
		}
		if e.Kind != bridge.EventReply || e.Name != "lead" {
			return nil
		}
		told, err := client.Mail(ctx, string(bridge.User), api.ListOptions{})
		if err == nil && len(told.Messages) > 0 {
			return over
		}
		return err
	})
	switch {
	case errors.Is(err, over):
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("the story did not end within %s; the bridge says:\n%s", limit, s.bridge().log)
	}
	return err
}
