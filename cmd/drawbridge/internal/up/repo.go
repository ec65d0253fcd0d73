package up

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"drawbridge/api"
	"drawbridge/cmd/drawbridge/internal/local"
	"drawbridge/config"
	"drawbridge/policy"
	"drawbridge/relay/agents/toolchain"
	"drawbridge/relay/link"
	"drawbridge/relay/runner/settings"
)

// enlistAgent adds an installed agent that is asked for and not listed, and a runtime for one that is listed. It is for a folder whose programs do
// not run.
func (u *upping) enlistAgent(ctx context.Context) error {
	relay, err := settings.Load(u.file("relay.yaml"), u.Getenv)
	if err != nil {
		return err
	}
	if u.Agent == "" {
		return nil
	}
	if _, listed := relay.Agents[u.Agent]; listed {
		return u.addRuntime(u.Agent)
	}
	if !slices.Contains(local.Names(), u.Agent) {
		return u.Usage(fmt.Errorf("agent %+.40q is not listed in %s (%s), and this program finds only these agents by itself: %s; add an entry for the agent to that file",
			u.Agent, u.file("relay.yaml"), listedAgents(relay), strings.Join(local.Names(), ", ")))
	}
	found, notes := u.Machine(ctx).Look()
	at := slices.IndexFunc(found, func(a local.Agent) bool { return a.Name == u.Agent })
	if at < 0 {
		for _, note := range notes {
			if rest, mine := strings.CutPrefix(note, u.Agent+": "); mine {
				return fmt.Errorf("agent %s cannot be used: %s", u.Agent, rest)
			}
		}
		for _, line := range local.Installs() {
			if name, how, _ := strings.Cut(line, " "); name == u.Agent {
				return fmt.Errorf("agent %s is not installed here: its program is not on PATH; install it (%s) and start again", u.Agent, strings.TrimSpace(how))
			}
		}
	}
	return u.addAgent(found[at])
}

func listedAgents(c settings.Config) string {
	return cmp.Or(strings.Join(slices.Sorted(maps.Keys(c.Agents)), ", "), "it lists no agents")
}

// addAgent puts a found agent into relay.yaml, and its runtime into bridge.yaml.
func (u *upping) addAgent(agent local.Agent) error {
	if err := u.edit("relay.yaml", func(text []byte) ([]byte, error) { return local.AddBlock(text, agent.Entry, "agents") }); err != nil {
		return err
	}
	u.say("agent %s (%s) is listed in relay.yaml now", agent.Name, agent.Program)
	return u.addRuntime(agent.Name)
}

// addRuntime puts a runtime for an entry of relay.yaml into bridge.yaml, unless there is one.
func (u *upping) addRuntime(agent string) error {
	cfg, problems := config.Load(u.file("bridge.yaml"), u.Getenv)
	if cfg == nil {
		return u.Problems(u.file("bridge.yaml"), problems)
	}
	name := u.relayName(cfg)
	if runtimeOf(cfg, name, agent) != "" {
		return nil
	}
	entry := local.Setup{Relay: name}.Runtime(agent)
	if err := u.edit("bridge.yaml", func(text []byte) ([]byte, error) { return local.Add(text, entry, "runtimes") }); err != nil {
		return err
	}
	u.say("agent %s can get turns; bridge.yaml has a runtime for it now", agent)
	return nil
}

// relayName is what a bridge calls the relay of this folder: as it joined, as the runtimes have it, or made from the name of the machine.
func (u *upping) relayName(cfg *config.Bridge) string {
	if i, err := link.Load(u.file(link.DefaultFile)); err == nil {
		return i.Relay
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Runtimes)) {
		if r := cfg.Runtimes[name]; r.Relay != "" {
			return r.Relay
		}
	}
	host, _ := os.Hostname()
	return local.RelayName(host)
}

// runtimeOf is the runtime whose agents an entry of a relay hosts, "" without one.
func runtimeOf(cfg *config.Bridge, relay, agent string) string {
	for _, name := range slices.Sorted(maps.Keys(cfg.Runtimes)) {
		if r := cfg.Runtimes[name]; r.Relay == relay && r.Agent == agent {
			return name
		}
	}
	return ""
}

// edit changes a file of the folder, if what comes of it can be read; else the file stays as it is.
func (u *upping) edit(name string, change func([]byte) ([]byte, error)) error {
	path := name
	if !filepath.IsAbs(path) {
		path = u.file(name)
	}
	return local.Edit(path, change, func(trial string) error { return u.readable(name, trial) })
}

// readable judges a file that is to stand in the place of another.
func (u *upping) readable(name, path string) error {
	switch name {
	case "relay.yaml":
		_, err := settings.Load(path, u.Getenv)
		return err
	case "bridge.yaml":
		if cfg, problems := config.Load(path, u.Getenv); cfg == nil {
			return errors.New(problems[0].String())
		}
	default:
		if _, problems := config.LoadAllowlist(path); len(problems) > 0 {
			return errors.New(problems[0].String())
		}
	}
	return nil
}

// enlist lists the clone that was named: in relay.yaml, so that the agent may work there, and in the allowlist, so that agents may be launched.
func (u *upping) enlist(ctx context.Context) error {
	if u.Folder == "" {
		return nil
	}
	if err := u.chooseAgent(ctx); err != nil {
		return err
	}
	repo, err := local.FindRepo(ctx, u.Folder, u.relay.Repos)
	if err != nil {
		return u.Usage(err)
	}
	if repo.Note != "" {
		u.say("%s, so this clone gets the name %s", repo.Note, repo.Name)
	}
	u.repo = &repo
	if err := u.listRepo(repo); err != nil {
		return err
	}
	for _, l := range toolchain.Lacks(u.relay) {
		if l.Repo == repo.Name && l.Agent == u.Agent {
			u.say("warning: %s; to change that: drawbridge init --local --tools %s %s", l, strings.Join(l.Programs, ","), u.Dir)
		}
	}
	return u.listRule(repo.Name)
}

// noAgent says how to come to an agent where relay.yaml lists none.
func (u *upping) noAgent(ctx context.Context) error {
	var names []string
	found, _ := u.Machine(ctx).Look()
	for _, a := range found {
		names = append(names, a.Name)
	}
	if len(names) > 0 {
		return fmt.Errorf("%s lists no agent; installed here: %s; to add one to the file, start again with --agent NAME (for example --agent %s)", u.file("relay.yaml"), strings.Join(names, ", "), names[0])
	}
	return fmt.Errorf("%s lists no agent, and no agent is installed here; install one of these, then start again with --agent NAME:\n  %s", u.file("relay.yaml"), strings.Join(local.Installs(), "\n  "))
}

// chooseAgent takes the only agent that is listed where none was named.
func (u *upping) chooseAgent(ctx context.Context) error {
	names := slices.Sorted(maps.Keys(u.relay.Agents))
	switch {
	case u.Agent != "":
		if _, listed := u.relay.Agents[u.Agent]; !listed {
			return u.Usage(fmt.Errorf("agent %+.40q is not listed in %s (%s); stop the running drawbridge up, and start it again with --agent", u.Agent, u.file("relay.yaml"), listedAgents(u.relay)))
		}
	case len(names) == 0:
		return u.noAgent(ctx)
	case len(names) > 1:
		return u.Usage(fmt.Errorf("several agents are listed (%s); choose one with --agent", strings.Join(names, ", ")))
	default:
		u.Agent = names[0]
	}
	if runtimeOf(u.bridge, u.relayID, u.Agent) == "" {
		return fmt.Errorf("bridge.yaml has no runtime for agent %s; add below runtimes: %s", u.Agent, local.Setup{Relay: u.relayID}.Runtime(u.Agent))
	}
	return nil
}

// listRepo puts a clone into relay.yaml, or the agent to the clone's agents.
func (u *upping) listRepo(repo local.Repo) error {
	there := u.relay.Repos[repo.Name]
	if slices.Contains(there.Agents, u.Agent) {
		return nil
	}
	err := u.edit("relay.yaml", func(text []byte) ([]byte, error) {
		if repo.Listed {
			return local.Add(text, u.Agent, "repos", repo.Name, "agents")
		}
		return local.Add(text, local.RepoEntry(repo, u.Agent), "repos")
	})
	if err != nil {
		return err
	}
	u.say("agent %s may work on %s (%s), in a clone of its own; relay.yaml says so now", u.Agent, repo.Name, repo.Clone)
	u.relay, err = settings.Load(u.file("relay.yaml"), u.Getenv)
	return err
}

// listRule lets agents be launched on a clone. A new rule names the agent's runtime; one that is there changes only when a person wants that.
func (u *upping) listRule(repo string) error {
	rules, problems := config.LoadAllowlist(u.bridge.Allowlist)
	if len(problems) > 0 {
		return u.Problems(u.bridge.Allowlist, problems)
	}
	wanted, list := runtimeOf(u.bridge, u.relayID, u.Agent), u.bridge.Allowlist
	at := slices.IndexFunc(rules.Repos, func(r policy.RepoRule) bool { return r.Pattern == repo })
	switch {
	case at >= 0 && rules.Repos[at].Runtime == wanted:
		return nil
	case at >= 0 && !u.Always:
		u.say("agents that others launch on %s run in %s, as allowlist.yaml says; to change that to %s, add --always", repo, cmp.Or(rules.Repos[at].Runtime, "the cloud"), wanted)
		return nil
	case at >= 0 && rules.Repos[at].Runtime == "":
		return fmt.Errorf("%s lists %s without a runtime, so agents that others launch there run in the cloud; change this entry to { repo: %s, runtime: %s }", rules.Repos[at].At, repo, repo, wanted)
	case at >= 0:
		u.say("agents that others launch on %s run in %s now, not in %s; allowlist.yaml says so", repo, wanted, rules.Repos[at].Runtime)
		return u.edit(list, func(text []byte) ([]byte, error) { return local.SetRuntime(text, repo, wanted) })
	}
	u.say("agents may be launched on %s, in %s; allowlist.yaml says so now", repo, wanted)
	return u.edit(list, func(text []byte) ([]byte, error) { return local.Add(text, local.RuleEntry(repo, wanted), "repos") })
}

// inForce waits until a bridge that runs has read the rule for a clone.
func (u *upping) inForce(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, fmt.Errorf("the bridge has not read %s within 30 s; see what it says: drawbridge check --config %s", u.bridge.Allowlist, local.Quoted(u.file("bridge.yaml"))))
	defer cancel()
	return every(ctx, func() bool {
		a, err := u.client.Allowed(ctx)
		return err == nil && slices.ContainsFunc(a.Repos, func(r api.AllowedRepo) bool {
			return r.Pattern == u.repo.Name && (!u.Always || r.Runtime == runtimeOf(u.bridge, u.relayID, u.Agent))
		})
	})
}
