package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"drawbridge/internal/failpoint"
	"drawbridge/internal/trust"
	"drawbridge/relay/runner/approval"
	"drawbridge/relay/runner/audit"
	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/output"
	"drawbridge/relay/runner/sandbox"
	"drawbridge/relay/runner/settings"
	"drawbridge/relay/wire"
)

const (
	// defaultPath is the PATH of an action that sets none.
	defaultPath = "/usr/local/bin:/usr/bin:/bin"
	// progressEvery is how often a caller is told the end of the output while an action runs.
	progressEvery = 500 * time.Millisecond
)

// attempt is one request on its way through the relay.
type attempt struct {
	*call
	request  wire.Request
	action   settings.Action
	progress func(wire.Output)
	// program and digest are set when what is executed has to be what was looked at.
	program *os.File
	digest  string
	// definition is what a person agrees to.
	definition string
	// answered is set when a person, or nobody in time, answered for this very request.
	answered bool
	// approvedBy names the door of the approval, when there was one.
	approvedBy string
	// ran is the audit line of what ran, or nil.
	ran *audit.Event
}

// Run is described at wire.Handler. It makes the checks in this order: is it listed, is it known already, is the kill switch
// off, may the program be executed, does a person agree, is there room, is the rate not used up. Only then the claim is
// one of something that ran.
func (r *Relay) Run(ctx context.Context, request wire.Request, progress func(wire.Output)) (wire.Outcome, error) {
	if !wire.ValidRequestID(request.ID) {
		return r.refuse(request, wire.RefusedInvalid, "the request id is malformed"), nil
	}
	action, listed := r.o.Config.Actions[request.Action]
	if recorded := r.recorded(request, listed && action.Idempotent); recorded != nil {
		return *recorded, nil
	}
	if !listed {
		return r.refuse(request, wire.RefusedUnlisted, fmt.Sprintf("action %+.80q is not on this relay's list", request.Action)), nil
	}
	entered, err := r.calls.enter(ctx)
	if err != nil {
		return r.gaveUp(request, err), nil
	}
	defer r.calls.leave(entered)
	a := &attempt{call: entered, request: request, action: action, progress: progress}
	claim := Claim{ID: request.ID, Action: request.Action, Body: request.BodyHash, Later: action.Approval.Needed(), Rerun: action.Idempotent}
	answer, err := r.o.Journal.Begin(a.waiting, claim)
	if err != nil {
		return r.journalRefusal(request, err), nil
	}
	if answer != nil {
		return replay(*answer), nil
	}
	defer func() {
		if a.program != nil {
			_ = a.program.Close()
		}
	}()
	failpoint.Here("relay.run.before")
	out := r.attempt(a)
	failpoint.Here("relay.run.after")
	return r.settle(a, out)
}

// settle makes the outcome durable. What was refused and may be asked for again leaves the id free; a person's no to it stays.
func (r *Relay) settle(a *attempt, out wire.Outcome) (wire.Outcome, error) {
	request := a.request
	// Two files, and the disk takes them side by side.
	var auditing sync.WaitGroup
	if a.ran != nil {
		auditing.Go(func() { r.noteRan(a) })
	}
	defer auditing.Wait()
	var err error
	if out.Status == wire.StatusRefused && (!a.answered || out.Refusal != wire.RefusedDenied) {
		err = r.o.Journal.Withdraw(request.ID)
	} else {
		err = r.o.Journal.Finish(request.ID, out.Answer)
	}
	if err != nil {
		r.o.Log.Error().Err(err).Str("request", request.ID).Msg("journal")
		return wire.Outcome{}, errors.New("the relay could not record the result of the action")
	}
	return out, nil
}

// recorded returns what an id came to, also when the action has left the list or the kill switch is on since: a refusal would
// promise that nothing ran.
func (r *Relay) recorded(request wire.Request, rerun bool) *wire.Outcome {
	j, remembers := r.o.Journal.(interface {
		Recorded(id, action, body string) *wire.Answer
	})
	if !remembers {
		return nil
	}
	answer := j.Recorded(request.ID, request.Action, request.BodyHash)
	if answer == nil || rerun && answer.Status == wire.StatusInterrupted {
		return nil
	}
	out := replay(*answer)
	return &out
}

func replay(answer wire.Answer) wire.Outcome {
	out := wire.Outcome{Answer: answer, Replayed: true}
	if answer.Status == wire.StatusRefused {
		// Nothing else that is refused is recorded.
		out.Refusal = wire.RefusedDenied
	}
	return out
}

// attempt does what Run is for, once the id is ours.
func (r *Relay) attempt(a *attempt) wire.Outcome {
	request := a.request
	if err := r.look(a); err != nil {
		return r.refuse(request, wire.RefusedUnsafe, err.Error())
	}
	if a.action.Approval.Needed() {
		if refused := r.agree(a); refused != nil {
			return *refused
		}
	}
	if err := r.slots.take(a.waiting, request.Action); errors.Is(err, errQueueFull) {
		return r.later(request, wire.RefusedBusy, err.Error(), time.Second)
	} else if err != nil {
		return r.gaveUp(request, err)
	}
	defer r.slots.give(request.Action)
	if wait, period := r.pace.start(); wait > 0 {
		reason := fmt.Sprintf("this relay starts at most %s a minute", actions(r.o.Config.Limits.PerMinute))
		if period > time.Minute {
			reason = fmt.Sprintf("this relay starts at most %s a day", actions(r.o.Config.Limits.PerDay))
		}
		return r.later(request, wire.RefusedRate, reason, wait)
	}
	if err := r.lookAgain(a); err != nil {
		return r.refuse(request, wire.RefusedUnsafe, err.Error())
	}
	if a.action.Approval.Needed() {
		if err := r.o.Journal.Start(request.ID); err != nil {
			return r.journalRefusal(request, err)
		}
	}
	if a.running.Err() != nil {
		// The kill switch, or the end of the relay, was faster than what came before this.
		return r.gaveUp(request, context.Cause(a.running))
	}
	if err := r.note(r.event(audit.Accepted, a)); err != nil {
		r.o.Log.Error().Err(err).Str("request", request.ID).Msg("audit")
		return r.later(request, wire.RefusedBusy, "the relay cannot write its audit log now, so nothing runs", time.Minute)
	}
	return wire.Outcome{Answer: r.execute(a)}
}

// look judges the program once more, opens and digests it where that matters, and computes what a person agrees to.
func (r *Relay) look(a *attempt) error {
	// What was judged at the start may have changed hands since.
	if err := trust.Executable(a.action.Argv[0]); err != nil {
		return fmt.Errorf("the program %w", err)
	}
	if err := r.lookAtFiles(a); err != nil {
		return err
	}
	if a.action.SHA256 == "" && !a.action.Approval.Needed() {
		return nil
	}
	program, err := trust.Program(a.action.Argv[0])
	if err != nil {
		return fmt.Errorf("the program %w", err)
	}
	a.program = program
	if a.digest, err = digestOf(program); err != nil {
		return fmt.Errorf("the program cannot be read: %w", err)
	}
	if a.action.SHA256 != "" && a.digest != a.action.SHA256 {
		r.alarm(a.request, "the digest of the program differs from sha256 in relay.yaml")
		return errors.New("the digest of the program differs from sha256 in relay.yaml; ask the relay's user to check the program and correct sha256")
	}
	a.definition = a.action.Definition(a.request.Action, a.digest, r.o.Key)
	return nil
}

// lookAtFiles compares what the program is going to read with its digests.
func (r *Relay) lookAtFiles(a *attempt) error {
	for _, f := range a.action.Files {
		name := output.Line(a.action.Redactor(r.secret).Hide(f.Path))
		digest, err := digestAt(f.Path)
		if err != nil {
			return fmt.Errorf("the file %s %w", name, err)
		}
		if digest != f.SHA256 {
			reason := fmt.Sprintf("the digest of the file %s differs from sha256 in relay.yaml", name)
			r.alarm(a.request, reason)
			return errors.New(reason + "; ask the relay's user to check the file and correct sha256")
		}
	}
	return nil
}

func digestAt(path string) (string, error) {
	file, err := trust.File(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	return digestOf(file)
}

// lookAgain notices what changed since look: minutes may have passed, in which a person was asked or a slot was not free. The program
// opens its files itself, by their paths, so that what changes one between here and there is not noticed.
func (r *Relay) lookAgain(a *attempt) error {
	if a.program != nil {
		if digest, err := digestOf(a.program); err != nil || digest != a.digest {
			return errors.New("the program was changed while this request waited; ask again")
		}
	}
	return r.lookAtFiles(a)
}

// agree returns nil when a person agrees to the action as it is now.
func (r *Relay) agree(a *attempt) *wire.Outcome {
	request, rules := a.request, a.action.Approval
	question := r.question(a.action)
	question.Request, question.Action, question.Definition = request.ID, request.Action, a.definition
	question.Agent, question.Line = request.Agent, request.Line
	if r.approvedThere(a, question) {
		_ = r.note(audit.Event{Event: audit.Approved, Request: request.ID, Action: request.Action, Config: a.definition, By: a.approvedBy})
		return nil
	}
	if !rules.Machine() || r.o.Desk == nil {
		out := r.wantsWord(a, question, "the operator at the bridge has to approve this action as it is defined now")
		return &out
	}
	verdict, refusal := r.ask(a, question)
	if refusal != nil {
		return refusal
	}
	a.answered = true
	e := r.event(audit.Approved, a)
	if e.By = verdict.By; !verdict.Approved {
		e.Event, e.Reason = audit.Denied, verdict.Reason
	}
	_ = r.note(e)
	if !verdict.Approved {
		out := refused(request.Action, wire.RefusedDenied, verdict.Reason)
		return &out
	}
	a.approvedBy = verdict.By
	return nil
}

// question is what a person is asked of an action, whoever asked for it.
func (r *Relay) question(action settings.Action) approval.Question {
	q := approval.Question{Argv: action.Argv, Dir: action.Dir, EnvNames: action.EnvNames(), Sandbox: r.confinement(action), Files: action.FilePaths()}
	if action.Approval.Mode == settings.ApproveOnce {
		q.Once = action.Approval.For
	}
	return q
}

// shows is what a definition would run, without its secrets, for an operator who is elsewhere (facts: relay, rule 10). It says
// so when it is longer than most allows, since what is not shown must not be approved unseen; with no room for that either it is "".
func (r *Relay) shows(action settings.Action, q approval.Question, most int) string {
	const tooLong = "the command is too long to be shown here; look at relay.yaml on that machine"
	text := q.Summary(action.Redactor(r.secret).Hide)
	if len(text) > min(most, wire.MaxShows) {
		text = tooLong
	}
	if len(text) > most {
		return ""
	}
	return text
}

// execute runs the program and says what came of it.
func (r *Relay) execute(a *attempt) wire.Answer {
	ctx, cancel := context.WithTimeoutCause(a.running, a.action.Timeout, errTimedOut)
	defer cancel()
	secret := a.action.Redactor(r.secret)
	out, errs := output.NewTail(a.action.Output, secret), output.NewTail(a.action.Output, secret)
	command := keeper.Command{
		Path: a.action.Argv[0], Program: a.program, Argv: a.action.Argv, Dir: a.action.Dir, Env: environment(a.action.Env),
		Stdout: out, Stderr: errs, Processes: a.action.Processes, Bounds: bounds(a.action.Bounds),
	}
	if a.action.Sandbox != nil {
		plan := r.plan(a.action)
		command.Sandbox = &plan
	}
	finish := a.report(out, errs)
	began := r.o.Now()
	end, err := r.o.Executor.Run(ctx, command)
	finish()
	answer := wire.Answer{Action: a.request.Action, DurationMS: r.o.Now().Sub(began).Milliseconds()}
	answer.Stdout, answer.StdoutOmitted = out.Text()
	answer.Stderr, answer.StderrOmitted = errs.Text()
	answer.Status, answer.ExitCode, answer.Error = wire.StatusFailed, wire.NoExitCode, ""
	if err != nil {
		answer.Error = err.Error()
	} else {
		judge(&answer, a.action, end, context.Cause(ctx))
	}
	stdout, stderr := out.Total(), errs.Total()
	e := r.event(audit.Ran, a)
	e.Status, e.Exit, e.Stdout, e.Stderr, e.Reason = string(answer.Status), &answer.ExitCode, &stdout, &stderr, output.Line(answer.Error)
	a.ran = &e
	return answer
}

func bounds(b settings.Bounds) sandbox.Bounds {
	return sandbox.Bounds{
		Memory: uint64(b.Memory), OpenFiles: uint64(b.OpenFiles), FileSize: uint64(b.FileSize), CPU: uint64(b.CPU / time.Second),
	}
}

// judge says how a program ended; cause is why its context was done, if it was.
func judge(answer *wire.Answer, action settings.Action, end keeper.End, cause error) {
	switch {
	case end.Overgrown:
		answer.Error = fmt.Sprintf("ended because it had more than %d processes", action.Processes)
	case end.Cut && errors.Is(cause, errTimedOut):
		answer.Status, answer.Error = wire.StatusTimedOut, fmt.Sprintf("ended after its timeout of %s", action.Timeout)
	case end.Cut && errors.Is(cause, errSwitched):
		answer.Error = "ended by the relay's kill switch"
	case end.Cut:
		answer.Error = "ended because the relay is stopping"
	case end.Signal == syscall.SIGXCPU && action.Bounds.CPU > 0:
		answer.Error = fmt.Sprintf("ended after %s of processor time", action.Bounds.CPU)
	case end.Signal == syscall.SIGXFSZ && action.Bounds.FileSize > 0:
		answer.Error = fmt.Sprintf("ended because it wrote a file of more than %d bytes", action.Bounds.FileSize)
	case end.Signal != 0:
		answer.Error = fmt.Sprintf("ended by a signal: %s", end.Signal)
	default:
		answer.Status, answer.ExitCode = wire.StatusExecuted, end.Code
	}
	if end.Left > 0 {
		answer.Error += fmt.Sprintf("; processes that could not be ended: %d", end.Left)
	}
}

// report tells the caller the end of the output until the returned function is called.
func (a *attempt) report(out, errs *output.Tail) (finish func()) {
	if a.progress == nil {
		return func() {}
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		told := int64(-1)
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
			if total := out.Total() + errs.Total(); total != told {
				told = total
				a.progress(wire.Output{Stdout: []byte(out.Sofar(wire.MaxProgress)), Stderr: []byte(errs.Sofar(wire.MaxProgress))})
			}
		}
	}()
	return func() {
		close(stop)
		<-done
	}
}

// environment starts from nothing: a nil slice would hand the relay's own environment, token and all, to the child.
func environment(pairs []settings.EnvVar) []string {
	env := make([]string, 0, len(pairs)+1)
	hasPath := false
	for _, pair := range pairs {
		env = append(env, pair.Name+"="+pair.Value)
		hasPath = hasPath || pair.Name == "PATH"
	}
	if !hasPath {
		env = append(env, "PATH="+defaultPath)
	}
	return env
}

// actions counts actions in words.
func actions(n int) string {
	if n == 1 {
		return "1 action"
	}
	return fmt.Sprintf("%d actions", n)
}
