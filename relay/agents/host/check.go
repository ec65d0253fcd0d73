package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"drawbridge/relay/agents"
	"drawbridge/relay/agents/acp"
	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/output"
	"drawbridge/relay/runner/settings"
)

// checkFolder is where an agent works while it is checked, beside its home.
const checkFolder = "check"

// Report is what a check found out about an entry.
type Report struct {
	Name string
	// Lines are pairs of a word and what was found, in the order in which they are shown.
	Lines [][2]string
	// Problems say what will not work, and what to do. Without one the agent works as far as a check can see.
	Problems []string
}

func (r *Report) line(word, format string, args ...any) {
	r.Lines = append(r.Lines, [2]string{word, fmt.Sprintf(format, args...)})
}

func (r *Report) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// Check starts an entry once, in an empty folder, and says what it found. It sends no prompt, so that it costs nothing. When it returns,
// nothing of the agent is left but what it keeps in its home.
func (h *Host) Check(ctx context.Context, name string) Report {
	r, a := Report{Name: name}, h.Config.Agents[name]
	r.line("program", "%s (kind %s)", a.Argv[0], a.Kind)
	home, err := h.home(name)
	if err != nil {
		r.problem("%v", err)
		return r
	}
	dir := filepath.Join(filepath.Dir(home), checkFolder)
	defer os.RemoveAll(dir)
	if err := ownFolder(dir); err != nil {
		r.problem("%v", err)
		return r
	}
	if a.Kind == settings.AgentCLI {
		h.checkCLI(ctx, &r, dir)
	} else {
		h.checkACP(ctx, &r, dir)
	}
	h.checkTools(ctx, &r, dir)
	h.describe(&r, a, home)
	return r
}

// describe adds what relay.yaml says of an entry.
func (h *Host) describe(r *Report, a settings.Agent, home string) {
	switch {
	case a.Sandbox == nil:
		r.line("sandbox", "none: the agent can do whatever the user of this relay can")
	default:
		plan := h.plan(a, home)
		r.line("sandbox", "%s", plan)
		if missing := plan.Missing(); missing != "" {
			r.line("", "NOT HERE: %s", missing)
		}
	}
	if a.Kind == settings.AgentACP {
		r.line("asks", "%s; a person answers at: %s", a.Permissions, a.ApproveBy)
	}
	if a.ToolCap > 0 {
		r.line("tools", "at most %d, as relay.yaml says; %s", a.ToolCap, besideBridge(a.ToolCap))
	}
	r.line("home", "%s", home)
}

// checkACP starts an agent that speaks the Agent Client Protocol.
func (h *Host) checkACP(ctx context.Context, r *Report, dir string) {
	a := h.Config.Agents[r.Name]
	began := time.Now()
	p, err := h.Start(ctx, r.Name, At{Dir: dir}, nil)
	if err != nil {
		r.problem("%s", reason(err))
		return
	}
	defer p.Close()
	ctx, cancel := context.WithTimeout(ctx, a.StartTimeout)
	defer cancel()
	about, err := p.Initialize(ctx)
	if err != nil {
		r.problem("%s", h.unanswered(r, p, err))
		return
	}
	started := time.Since(began)
	r.line("agent", "%s, protocol %d, started in %.1f s", named(about), about.Protocol, started.Seconds())
	r.line("sessions", "%s", goesOn(about))
	s, err := p.NewSession(ctx, acp.Start{Dir: dir})
	if err == nil {
		r.line("session", "opened in %.1f s", (time.Since(began) - started).Seconds())
	}
	if noise := p.Noise(); noise.Lines > 0 {
		r.line("output", "%s", noise)
	}
	h.checkLogin(r, a, about, err)
	if err != nil {
		if agents.CauseOf(err) != agents.LoginMissing {
			r.problem("%s", h.unanswered(r, p, err))
		}
		return
	}
	describeAsking(r, a, s)
}

func named(about acp.About) string {
	name := strings.TrimSpace(about.Name + " " + about.Version)
	if name == "" {
		return "the agent does not say its name or version"
	}
	return name
}

// goesOn says how an agent goes on with sessions of an earlier process.
func goesOn(about acp.About) string {
	switch {
	case about.Resume && about.Load:
		return "the agent can resume its sessions and load their history (session/resume, session/load)"
	case about.Resume:
		return "the agent can resume its sessions (session/resume), but cannot load their history"
	case about.Load:
		return "the agent can load its sessions with their history (session/load)"
	default:
		return "the agent cannot continue a session after its process ended; each process begins with an empty session"
	}
}

// checkLogin says whether the agent is logged in. opened is the error of opening a session.
func (h *Host) checkLogin(r *Report, a settings.Agent, about acp.About, opened error) {
	known, _ := a.Forced()
	home := h.Config.AgentHome(r.Name)
	how := h.howToLogIn(r.Name)
	if len(known.Keys) > 0 {
		how += ", or set " + known.Keys[0] + " below env:"
	}
	offers := ""
	if len(about.Logins) > 0 {
		offers = fmt.Sprintf(" (it offers: %s)", strings.Join(about.Logins, ", "))
	}
	switch by := loggedInBy(a, known, home); {
	case agents.CauseOf(opened) == agents.LoginMissing:
		r.line("login", "missing%s", offers)
		r.problem("the agent wants its user to log in; %s", how)
	case opened != nil:
	case by != "":
		r.line("login", "by %s", by)
	case len(known.Keys)+len(known.Logins) > 0:
		r.line("login", "missing: neither a key nor a login in its home")
		r.problem("%s is not logged in, and would say so only in its first turn; %s", known.Name, how)
	default:
		r.line("login", "the agent opened a session without a login%s; some agents ask for a login only in their first turn", offers)
	}
}

// loggedInBy names the variable or the file with which a known agent is logged in, or returns "".
func loggedInBy(a settings.Agent, known settings.Known, home string) string {
	for _, v := range a.Env {
		if slices.Contains(known.Keys, v.Name) && v.Value != "" {
			return v.Name
		}
	}
	for _, name := range known.Logins {
		if stat, err := os.Lstat(filepath.Join(home, name)); err == nil && stat.Mode().IsRegular() {
			return name + " in its home"
		}
	}
	return ""
}

// describeAsking says what makes the agent ask before it acts.
func describeAsking(r *Report, a settings.Agent, s *acp.Session) {
	known, forced := a.Forced()
	for _, v := range known.Env {
		r.line("forced", "%s=%s", v.Name, v.Value)
	}
	if len(known.Meta) > 0 {
		text, _ := json.Marshal(known.Meta) // of our own making
		r.line("forced", "options of each session: %s", text)
	}
	if mode, began := s.Mode(); known.Mode != "" {
		r.line("forced", "mode %s (it began in %s)", output.Line(mode), output.Line(began))
	}
	limited := map[bool]string{true: "; its sandbox limits it", false: ""}[a.Sandbox != nil]
	switch {
	case forced:
	case known.Name != "":
		r.line("asking", "settings in its home or in the repository may still let it act without asking%s", limited)
	default:
		r.line("asking", "not known: this relay does not know a setting that makes this agent ask%s", limited)
	}
}

// unanswered is complaint, and for an agent that did not answer also how long the check waited, what the agent printed last, and what to try.
func (h *Host) unanswered(r *Report, p *Process, err error) string {
	var why *agents.Error
	if agents.CauseOf(err) != agents.Hung || !errors.As(err, &why) {
		return p.complaint(err)
	}
	return fmt.Sprintf("%s: the check waited %s, and %s; if the agent waits for a login, %s; if it needs an argument to speak the Agent Client Protocol, such as acp, add it to argv",
		why.Reason, h.Config.Agents[r.Name].StartTimeout, p.printed(), h.howToLogIn(r.Name))
}

// printed says what the agent complained about last.
func (p *Process) printed() string {
	if last := lastLine(p.stderr); last != "" {
		return fmt.Sprintf("the last line on its error output is %q", last)
	}
	return "it wrote nothing to its error output"
}

// howToLogIn says which command runs the login of an entry.
func (h *Host) howToLogIn(name string) string {
	how := "run: drawbridge-relay login " + name + " --config " + h.Config.File
	if _, ok := h.Config.Agents[name].LoginCommand(); !ok {
		how += " -- ARGUMENTS, with the arguments of its login"
	}
	return how
}

// complaint is an error together with the last words of the agent.
func (p *Process) complaint(err error) string {
	text := reason(err)
	if last := lastLine(p.stderr); last != "" && !strings.Contains(text, last) {
		text += fmt.Sprintf("; it wrote %q", last)
	}
	return text
}

func reason(err error) string {
	return strings.TrimPrefix(strings.TrimPrefix(err.Error(), string(agents.Crashed)+": "), string(agents.Failed)+": ")
}

// checkCLI asks a program of kind cli for its version. Whether it is logged in shows in its first turn only.
func (h *Host) checkCLI(ctx context.Context, r *Report, dir string) {
	a, secret := h.Config.Agents[r.Name], h.Config.Redactor()
	ctx, cancel := context.WithTimeout(ctx, a.StartTimeout)
	defer cancel()
	command, err := h.command(r.Name, At{Dir: dir})
	if err != nil {
		r.problem("%s", reason(err))
		return
	}
	p := &Process{stderr: output.NewTail(keepStderr, secret)}
	out := output.NewTail(keepStderr, secret)
	command.Argv, command.Stdout, command.Stderr = []string{a.Argv[0], "--version"}, out, p.stderr
	end, err := h.Executor.Run(ctx, command)
	switch version, _ := out.Text(); {
	case err != nil || end != (keeper.End{Most: end.Most}):
		if ctx.Err() != nil {
			r.problem("the program did not print its version (--version) within %s, and %s; check that argv names the right program", a.StartTimeout, p.printed())
			return
		}
		r.problem("the program cannot print its version (--version): %s", reason(p.why(end, err)))
		return
	default:
		first, _, _ := strings.Cut(strings.TrimSpace(version), "\n")
		r.line("agent", "version %s; one process for each turn, format %s", output.Line(first[:min(len(first), 100)]), a.Template.Format)
	}
	h.checkTemplate(r, a)
	r.line("asking", "never: an agent of kind cli cannot ask; its sandbox limits it")
}

// besideBridge compares how many tools an agent can hold with what the bridge offers.
func besideBridge(most int) string {
	if left := most - settings.BridgeTools; left >= 0 {
		return fmt.Sprintf("all toolsets of a bridge together have %d tools, so at least %d are left for other servers of the agent", settings.BridgeTools, left)
	}
	return fmt.Sprintf("all toolsets of a bridge together have %d tools, so the agent may leave some out; write tool_cap: %d below the runtime in bridge.yaml, then run drawbridge check at the bridge", settings.BridgeTools, most)
}
