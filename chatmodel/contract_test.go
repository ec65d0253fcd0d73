package chatmodel_test

import (
	"context"
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/chatmodel"
	"drawbridge/proof/chatsim"
	proof "drawbridge/proof/runtimes"
)

// rows does what the engine has done when it calls a Runtime: the agent and its turn are there.
type rows struct {
	*chatmodel.Runtime
	w *world
}

func (r rows) put(ctx context.Context, agent bridge.AgentID, turn bridge.TurnID, text string) error {
	return r.w.engine.Change(ctx, func(tx bridge.Change) error {
		if _, err := tx.Agent(agent); err != nil {
			a := bridge.Agent{ID: agent, Name: string(agent[4:]), Root: agent, Runtime: "local", State: bridge.AgentBusy, CreatedAt: tx.Now(), UpdatedAt: tx.Now()}
			if err := tx.InsertAgent(a); err != nil && !tx.Guesses() {
				return err
			}
		}
		if _, err := tx.Turn(turn); err == nil {
			return nil
		}
		_, err := tx.InsertTurn(bridge.Turn{ID: turn, Agent: agent, Cause: bridge.CauseUser, Text: text, State: bridge.TurnRunning, CreatedAt: tx.Now(), SentAt: tx.Now()})
		return err
	})
}

func (r rows) Launch(ctx context.Context, l bridge.Launch) (bridge.Started, error) {
	if l.Owner != "" && ctx.Err() == nil {
		if err := r.put(r.w.Context(), l.Owner, bridge.TurnID("trn_of_"+string(l.Owner)), "go"); err != nil {
			return bridge.Started{}, err
		}
	}
	return r.Runtime.Launch(ctx, l)
}

func (r rows) Send(ctx context.Context, f bridge.FollowUp) (bridge.Started, error) {
	owner, ours := strings.CutPrefix(f.Agent, "chat-")
	if turn, ok := strings.CutPrefix(f.Marker, "[bridge "); ok && ours && ctx.Err() == nil {
		err := r.w.engine.View(ctx, func(tx *bridge.Scene) error { _, err := tx.Agent(bridge.AgentID(owner)); return err })
		if err == nil {
			if err := r.put(r.w.Context(), bridge.AgentID(owner), bridge.TurnID(strings.TrimSuffix(turn, "]")+"_of_"+owner), f.Text); err != nil {
				return bridge.Started{}, err
			}
		}
	}
	return r.Runtime.Send(ctx, own(f))
}

func (r rows) FindSend(ctx context.Context, f bridge.FollowUp) (bridge.Started, bridge.Found, error) {
	return r.Runtime.FindSend(ctx, own(f))
}

// own makes the marker that of one agent: the suite gives the turns of all agents the same ids.
func own(f bridge.FollowUp) bridge.FollowUp {
	if owner, ok := strings.CutPrefix(f.Agent, "chat-"); ok && strings.HasPrefix(f.Marker, "[bridge ") {
		f.Marker = strings.TrimSuffix(f.Marker, "]") + "_of_" + owner + "]"
	}
	return f
}

// TestContract: chat models are a Runtime like others.
func TestContract(t *testing.T) {
	t.Parallel()
	proof.Run(t, proof.Suite{
		Abilities: proof.Abilities{Repeats: true, Busy: true, Cancelled: true, Inspects: true},
		New: func(t *testing.T) proof.World {
			w := newWorld(t, func(r chatsim.Request, _ int) chatsim.Answer {
				text := strings.Split(strings.TrimSpace(userOf(r)), "\n")
				switch last := text[len(text)-1]; {
				case strings.Contains(last, proof.NeverEnds):
					return chatsim.Answer{Hang: true}
				case strings.Contains(last, proof.Fails):
					return chatsim.Answer{Status: 400}
				default:
					return chatsim.Answer{Text: last}
				}
			})
			w.start()
			return proof.World{
				Runtime: rows{w.chat, w}, Name: "local",
				Made: func() (agents, followUps int) {
					err := w.engine.View(w.Context(), func(tx *bridge.Scene) error {
						all, err := tx.Agents(bridge.AgentFilter{})
						for _, a := range all {
							turns, err := tx.Turns(bridge.TurnFilter{Agent: a.ID})
							if err != nil {
								return err
							}
							for _, turn := range turns {
								if run, err := tx.RunCall(turn.ID, "run"); err != nil || len(run) == 0 {
									continue
								}
								if turn.Seq == 1 {
									agents++
								} else {
									followUps++
								}
							}
						}
						return err
					})
					if err != nil {
						t.Error(err)
					}
					return agents, followUps
				},
				Restart: func() bridge.Runtime {
					w.restart()
					return rows{w.chat, w}
				},
			}
		},
	})
}
