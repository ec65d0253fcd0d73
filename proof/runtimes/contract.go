package runtimes

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/policy"
)

// What the agents of a World do with a prompt, by the words that it holds. To
// any other prompt they answer with a text that repeats its last line.
const (
	// NeverEnds keeps a run going until it is cancelled.
	NeverEnds = "never ends"
	// Fails ends a run with ERROR.
	Fails = "fails"
)

// Repo is the repository that the launches of the suite are granted.
const Repo = "github.com/me/my-app"

// Abilities is what a Runtime can do beyond what all of them can. One that is
// declared must work.
type Abilities struct {
	// Repeats: a second launch under one AgentID meets its earlier self, and look-ups answer FoundAbsent for what was not made.
	// Without it they answer FoundUnknown, so that a doubt may be for a person to settle.
	Repeats bool
	// Busy: a follow-up to an agent at work is refused.
	Busy bool
	// Cancelled: a run that was cancelled says CANCELLED, not merely that it is over.
	Cancelled bool
	// Follows and Inspects: the Runtime is a bridge.Follower, a bridge.Inspector.
	Follows, Inspects bool
}

// World is one Runtime, fresh, and the levers on its other side.
type World struct {
	Runtime bridge.Runtime
	// Name and API are what launches and runs name; see bridge.Agent. An empty Name is the cloud.
	Name, API string
	// Made counts the agents and the follow-ups that really came to be.
	Made func() (agents, followUps int)
	// LoseLaunch and LoseSend make the next of these calls take effect and lose its
	// answer; nil where nothing stands in between that could lose one.
	LoseLaunch, LoseSend func()
	// Refuse makes the next launch fail without effect in such a way; nil where a
	// Runtime never does.
	Refuse map[bridge.ErrorKind]func()
	// Restart ends the process in which the agents live, as far as it can be told
	// from outside, and returns the Runtime of the next one; nil where agents live elsewhere.
	Restart func() bridge.Runtime
}

// Suite is a Runtime to test: what it can do, and how to make one.
type Suite struct {
	Abilities
	New func(t *testing.T) World
}

// Run plays the whole contract, each part on a World of its own.
func Run(t *testing.T, s Suite) {
	t.Helper()
	for name, part := range map[string]func(*testing.T, play){
		"turns":           turns,
		"no grant":        noGrant,
		"same launch":     sameLaunch,
		"lost launch":     lostLaunch,
		"lost follow-up":  lostSend,
		"refused":         refused,
		"unknown ids":     unknown,
		"failed run":      failed,
		"cancel":          cancel,
		"busy":            busy,
		"side by side":    sideBySide,
		"ended context":   endedContext,
		"follow":          follow,
		"inspect":         inspect,
		"another process": restart,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part(t, play{t, s.Abilities, s.New(t)})
		})
	}
}

// play is one part of the suite on its World.
type play struct {
	*testing.T
	Abilities
	World
}

// launch is the nth launch: an operation of its own.
func (p play) launch(n int, prompt string) bridge.Launch {
	return bridge.Launch{
		Grant: grant(p.T, prompt), Runtime: p.Name, API: p.API, AgentID: fmt.Sprintf("bc-00000000-0000-4000-8000-%012d", n),
		Op: fmt.Sprintf("op%d", n), Name: fmt.Sprintf("agent%d", n), Owner: bridge.AgentID(fmt.Sprintf("agt_%d", n)),
	}
}

// grant makes a Grant the only way there is: through a policy.
func grant(t *testing.T, prompt string) policy.Grant {
	t.Helper()
	p, problems := policy.New(policy.Rules{Repos: []policy.RepoRule{{Pattern: Repo}}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return p.OperatorGrant(Repo, prompt).Grant
}

func (p play) start(n int, prompt string) bridge.RunRef {
	p.Helper()
	s, err := p.Runtime.Launch(p.Context(), p.launch(n, prompt))
	if err != nil {
		p.Fatalf("launch: %v", err)
	}
	return p.ref(s, "")
}

func (p play) ref(s bridge.Started, marker string) bridge.RunRef {
	return bridge.RunRef{Runtime: p.Name, API: p.API, Agent: s.Agent, Run: s.Run, Marker: marker}
}

func (p play) followUp(r bridge.RunRef, turn int, text string) bridge.FollowUp {
	return bridge.FollowUp{Runtime: p.Name, API: p.API, Agent: r.Agent, LastRun: r.Run, Marker: fmt.Sprintf("[bridge trn_%d]", turn), Text: text}
}

// finish observes until the run is over.
func (p play) finish(r bridge.RunRef) bridge.Observation {
	p.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		o, err := p.Runtime.Observe(p.Context(), r)
		if err != nil {
			p.Fatalf("observe: %v", err)
		}
		if o.State.Terminal() {
			return o
		}
		if o.Reply != "" {
			p.Fatalf("a run that is %s has the reply %q", o.State, o.Reply)
		}
		select {
		case <-tick.C:
		case <-p.Context().Done():
			p.Fatal("the run does not end")
		}
	}
}

func (p play) finished(r bridge.RunRef, words string) {
	p.Helper()
	if o := p.finish(r); o.State != bridge.RunFinished || !strings.Contains(o.Reply, words) {
		p.Errorf("the run ended as %+v, want FINISHED and %q", o, words)
	}
}

func (p play) made(agents, followUps int) {
	p.Helper()
	if a, f := p.Made(); a != agents || f != followUps {
		p.Errorf("%d agents and %d follow-ups came to be, want %d and %d", a, f, agents, followUps)
	}
}

func (p play) kind(err error, kind bridge.ErrorKind, unclear bool) {
	p.Helper()
	if bridge.KindOf(err) != kind || bridge.IsUnclear(err) != unclear {
		p.Errorf("got %v (kind %q, unclear %v), want kind %q, unclear %v", err, bridge.KindOf(err), bridge.IsUnclear(err), kind, unclear)
	}
}

// foundLaunch looks a launch up and compares it with what is known of it.
func (p play) foundLaunch(l bridge.Launch, want string) bridge.Started {
	p.Helper()
	s, found, err := p.Runtime.FindLaunch(p.Context(), l)
	if err != nil || want == "" && found != p.absent() || want != "" && found != bridge.FoundThere || (want != "" && want != anyAgent && s.Agent != want) {
		p.Fatalf("find launch: %+v %v %v, want %q", s, found, err, want)
	}
	return s
}

// absent is what a look-up answers for a request that was not made: a Runtime without Repeats cannot tell.
func (p play) absent() bridge.Found {
	if p.Repeats {
		return bridge.FoundAbsent
	}
	return bridge.FoundUnknown
}

// anyAgent is a found launch of which the answer was lost.
const anyAgent = "*"

func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
