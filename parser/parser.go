// Package parser finds the commands in what an agent wrote, and the lines that
// look like commands and are not, each with a reason that the agent can act on.
//
// It is pure: text in, values out. It does not decide whether a command may
// run (package policy does), it does not look at repositories or action ids
// beyond their alphabet, and it never repairs, unescapes or shortens what was
// written. A command stands alone on its line, begins in the first column with
// the exact keyword and its colon, and holds nothing that a reader could not see.
//
// Three judgement calls, all towards "rather miss a command than invent one":
//
//   - Fenced text is a quotation unless [Options] says otherwise. Fences follow
//     CommonMark at the top level. A fence line indented by one to three spaces
//     counts as top level even if it stands in a list item, so a body written in
//     the first column stays fenced. Only a fence that opens on the marker's own
//     line ("- ```") belongs to its item and ends with it, as one in a block
//     quote ends with the quote.
//   - A line that carries its keyword behind a label, a table bar, quotation
//     marks or a comment is prose and is not reported. The bar is how quoted
//     results reach an agent; an agent that quotes with it does the right thing.
//   - A line directly under a SUBAGENT command is reported as continued, because
//     half a task is costly. That report is for information: no command was lost.
//
// Rule of thumb: if two careful readers could disagree about a line, it is a
// [NearMiss].
package parser

// Verb is the keyword of a command line, without its colon.
type Verb string

// The verbs of the orchestrator protocol. [Remind] and [WebhookResult] are its
// optional part and are off until [Options] enables them.
const (
	Subagent      Verb = "SUBAGENT"
	LocalAction   Verb = "LOCAL_ACTION"
	Remind        Verb = "REMIND"
	WebhookResult Verb = "WEBHOOK_RESULT"
)

// Command is a well-formed command line: what an agent asks for, checked for
// shape and alphabet only. Nothing in it is trusted or allowed yet. Its strings
// do not alias the parsed text. Only the fields of its verb are set.
type Command struct {
	Verb Verb

	// Line is the 1-based number of the line in the turn's text. LF and CRLF
	// end lines; nothing else does.
	Line int

	// Repo and Prompt belong to [Subagent]: as written, trimmed of ASCII space
	// and tab, never empty. Repo is printable ASCII without blanks; whether it
	// names an allowed repository, or a repository at all, is not decided here.
	Repo, Prompt string

	// Name, Role and Subdir belong to [Subagent]: what the new agent shall be
	// called, what it is for, and in which folder below its parent's it works. No
	// line can say them; only a tool call can.
	Name   string `json:",omitempty"`
	Role   string `json:",omitempty"`
	Subdir string `json:",omitempty"`

	// Shared belongs to [Subagent], too: no repository was named, so that the new agent works in its parent's workspace where it can.
	Shared bool `json:",omitempty"`

	// Action belongs to [LocalAction]: the whole rest of the line, trimmed,
	// printable ASCII and tab. "backup --x" is one id, not an id and a flag.
	Action string

	// When and Message belong to [Remind]: an RFC 3339 time or a number with
	// m, h or d (at most six digits), and the text after the first comma.
	When, Message string

	// AgentID and Status belong to [WebhookResult]: an acknowledgement by the
	// agent, never a proof that anything finished.
	AgentID, Status string

	// Raw is the line as written, without its line end and without a byte order
	// mark at the start of the turn. It begins with the verb and a colon.
	Raw string
}

// Fenced says what a command inside a Markdown code fence means.
type Fenced string

// The settings of [Fenced]. Every other value, also the empty one, means
// [FencedIgnore].
const (
	FencedIgnore Fenced = "ignore" // a quotation: reported as a near miss
	FencedRun    Fenced = "run"    // a command like any other
)

// Options selects the dialect. The zero value is the strict one: fenced
// commands are ignored, and REMIND and WEBHOOK_RESULT lines are near misses with
// [CodeNotEnabled].
type Options struct {
	Fenced        Fenced
	Remind        bool
	WebhookResult bool
}

// Handler receives what a [Parser] finds, in the order of the lines, from
// inside Write and Close. A nil function drops its kind.
type Handler struct {
	Command  func(Command)
	NearMiss func(NearMiss)
}

// Result is everything found in one text, in the order of the lines. The
// slices are never nil.
type Result struct {
	Commands   []Command
	NearMisses []NearMiss
}

// Parse reads a whole turn. It finds exactly what a [Parser] fed with the same
// bytes in any chunks finds. The number of commands is not limited here.
func Parse(text []byte, opts Options) Result {
	res := Result{Commands: []Command{}, NearMisses: []NearMiss{}}
	p := New(opts, Handler{
		Command:  func(c Command) { res.Commands = append(res.Commands, c) },
		NearMiss: func(m NearMiss) { res.NearMisses = append(res.NearMisses, m) },
	})
	if tail := p.scan(text); len(tail) > 0 {
		p.whole(tail, true)
	}
	return res
}

// ParseString is [Parse] for a string. It copies the text once.
func ParseString(text string, opts Options) Result {
	return Parse([]byte(text), opts)
}
