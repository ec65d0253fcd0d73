package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"drawbridge/internal/strictjson"
)

// The paths of a bridge that relays call, and the WebSocket subprotocol that both ends must name.
const (
	ConnectPath = "/relay/connect"
	JoinPath    = "/relay/join"
	RekeyPath   = "/relay/rekey"
	Subprotocol = "drawbridge-relay-v2"
)

// Reasons in the WebSocket close frame that mean more to a relay than "try again".
const (
	CloseUnknown = "not enrolled"
	CloseRevoked = "revoked"
	// CloseCopied means that the relay showed an older epoch than one that it, or a copy of it, has acknowledged.
	CloseCopied = "copied"
)

// Sizes of frames, in bytes. Until both ends have proved who they are, neither reads more than MaxHandshake at a time.
const (
	MaxHandshake = 4 << 10
	// MaxToRelay bounds a frame that a relay reads: a request and what JSON makes of it.
	MaxToRelay = 32 << 10
	// MaxToBridge bounds a frame that a bridge reads: an answer, the largest thing that a relay says.
	MaxToBridge = strictjson.MaxBytes
	// MaxOffers is how many actions a relay may offer.
	MaxOffers = 512
	// MaxQuestions is how many requests a relay may ask people about at a time, and MaxQuestion how long each question lasts.
	MaxQuestions = 64
	MaxQuestion  = 24 * time.Hour
)

// Frame is one WebSocket text message: a JSON object with exactly one member, named after what it is.
type Frame struct {
	// The handshake, in this order; the relay speaks first.
	Hello     *Hello     `json:"hello,omitempty"`
	Challenge *Challenge `json:"challenge,omitempty"`
	Proof     *Proof     `json:"proof,omitempty"`
	Welcome   *Welcome   `json:"welcome,omitempty"`
	// The relay tells what it may run, once after the welcome and again when it changed.
	Offers *Offers `json:"offers,omitempty"`
	// Keys announces a newer key of the bridge; Pinned is the relay's answer.
	Keys   *Keys   `json:"keys,omitempty"`
	Pinned *Pinned `json:"pinned,omitempty"`
	// Request is what the bridge asks for; Output and Outcome are the relay's answers.
	Request *Signed  `json:"request,omitempty"`
	Output  *Tail    `json:"output,omitempty"`
	Outcome *Outcome `json:"outcome,omitempty"`
	// Answered says that a request which was refused with RefusedApproval has its answer from the relay's machine.
	Answered *Answered `json:"answered,omitempty"`
	// Kept acknowledges the connection's epoch.
	Kept *Kept `json:"kept,omitempty"`
	// Lookup asks what the relay's journal knows of a request and never runs anything; Found is the relay's answer.
	Lookup *Signed `json:"lookup,omitempty"`
	Found  *Found  `json:"found,omitempty"`
	// Switch says how the relay's kill switch stands, after the offers and after each change.
	Switch *Switch `json:"switch,omitempty"`
	// Asking lists what people at the relay's machine are asked. The relay sends it after the offers if they are asked
	// anything, and after each change.
	Asking *Asking `json:"asking,omitempty"`
	// Turn and TurnLookup are for a relay that hosts agents; Ended and TurnFound are its answers.
	Turn       *Signed    `json:"turn,omitempty"`
	TurnLookup *Signed    `json:"turn_lookup,omitempty"`
	Ended      *TurnEnded `json:"ended,omitempty"`
	TurnFound  *TurnFound `json:"turn_found,omitempty"`
	// TurnStop asks a relay to end a turn. TurnStopped is its answer: what it knew of the turn when it got the word.
	TurnStop    *Signed    `json:"turn_stop,omitempty"`
	TurnStopped *TurnFound `json:"turn_stopped,omitempty"`
	// TurnPeek asks about workspaces, and TurnPeeked answers.
	TurnPeek   *Signed    `json:"turn_peek,omitempty"`
	TurnPeeked *TurnFound `json:"turn_peeked,omitempty"`
	// MCPCall and MCPCancel are what an agent that the relay hosts wants of the bridge's MCP door. MCPPart is the bridge's answer.
	MCPCall   *MCPCall   `json:"mcp_call,omitempty"`
	MCPCancel *MCPCancel `json:"mcp_cancel,omitempty"`
	MCPPart   *MCPPart   `json:"mcp_part,omitempty"`
	// Permission announces a question of an agent that the relay hosts, and each later state of it; Permitted is the bridge's receipt.
	// PermissionWait asks for the operator's word, and Permit is that word.
	Permission     *Permission     `json:"permission,omitempty"`
	Permitted      *Permitted      `json:"permitted,omitempty"`
	PermissionWait *PermissionWait `json:"permission_wait,omitempty"`
	Permit         *Signed         `json:"permit,omitempty"`
	// Chunked, Chunk and Receipt carry a frame that is larger than MaxWhole, in either direction.
	Chunked *Chunked `json:"chunked,omitempty"`
	Chunk   *Chunk   `json:"chunk,omitempty"`
	Receipt *Receipt `json:"receipt,omitempty"`
}

// Hello opens a connection: who the relay says it is, and which keys of the bridge it trusts.
type Hello struct {
	Relay string `json:"relay"`
	// Key is the id of the relay's key, see [KeyID].
	Key   string `json:"key"`
	Nonce string `json:"nonce"`
	// Pins are the ids of the bridge's keys that the relay trusts, oldest first.
	Pins []string `json:"pins"`
}

// Challenge is the bridge's answer to a Hello, signed with one of the pinned keys.
type Challenge struct {
	Key   string `json:"key"`
	Nonce string `json:"nonce"`
	Sig   string `json:"sig"`
}

// Proof is the relay's signature over both nonces and the two fields below.
type Proof struct {
	Sig string `json:"sig"`
	// Epoch is the last one that the relay's journal keeps, 0 for none. Each connection gets a higher one.
	Epoch int64 `json:"epoch,omitempty"`
	// Process names the relay's process, which no copy of its files shares. It is a [ValidRequestID]. Without one the relay tries an
	// address out: the bridge answers with a Welcome without an epoch, and closes.
	Process string `json:"process,omitempty"`
}

// Welcome ends the handshake.
type Welcome struct {
	// Session names the connection in the logs of both ends.
	Session string `json:"session"`
	// Keys is set when the bridge has a newer key than the one that it proved.
	Keys *Keys `json:"keys,omitempty"`
	// Epoch is the connection's, which the relay keeps before it answers with [Kept]; Sig is the bridge's signature over
	// it.
	Epoch int64  `json:"epoch,omitempty"`
	Sig   string `json:"sig,omitempty"`
}

// Kept acknowledges that the relay's journal has the epoch on the disk.
type Kept struct {
	Epoch int64 `json:"epoch"`
}

// Switch is how the relay's kill switch stands, and whether its configuration does.
type Switch struct {
	Stopped bool `json:"stopped"`
	// Outdated says that relay.yaml is another by now than the one that the relay follows.
	Outdated bool `json:"outdated,omitempty"`
}

// Asking is the whole list of requests about which a person at the relay's machine is asked now.
type Asking struct {
	Questions []Asked `json:"questions"`
}

// Asked is one question to a person. It has spans and not times, because the two clocks may differ.
type Asked struct {
	// ID is the request's.
	ID string `json:"id"`
	// AgeMS is how many milliseconds ago the person was asked. LeftMS is how many are left until a missing answer is a no.
	AgeMS  int64 `json:"age_ms"`
	LeftMS int64 `json:"left_ms"`
}

func (a Asking) check() error {
	if len(a.Questions) > MaxQuestions {
		return fmt.Errorf("%d open questions; at most %d are allowed", len(a.Questions), MaxQuestions)
	}
	seen := map[string]bool{}
	for _, q := range a.Questions {
		if !ValidRequestID(q.ID) || seen[q.ID] {
			return errors.New("an open question has no id, or is listed twice")
		}
		if most := MaxQuestion.Milliseconds(); q.AgeMS < 0 || q.LeftMS < 0 || q.AgeMS > most || q.LeftMS > most {
			return errors.New("an open question from another time")
		}
		seen[q.ID] = true
	}
	return nil
}

// Known is what a relay's journal knows of a request.
type Known string

// The answers to a look-up.
const (
	// KnownNot means that this journal has no such request, or forgot it after its keeping time.
	KnownNot Known = "unknown"
	// KnownOpen means that the request runs, or waits for a person at the relay's machine.
	KnownOpen Known = "open"
	// KnownOver means that the request has an answer.
	KnownOver Known = "over"
	// KnownAgain means that nobody knows what the request came to, and that the relay's file lets it run again.
	KnownAgain Known = "again"
	// KnownRefused means that the relay did not look: the signature or the time of the look-up is wrong there.
	KnownRefused Known = "refused"
)

// Found answers a look-up.
type Found struct {
	ID    string `json:"id"`
	Known Known  `json:"known"`
	// Outcome is set when Known is KnownOver, and only then.
	Outcome *Outcome `json:"outcome,omitempty"`
}

func (f Found) check() error {
	switch {
	case !ValidRequestID(f.ID):
		return errors.New("a look-up's answer without an id")
	case (f.Known == KnownOver) != (f.Outcome != nil):
		return errors.New("a look-up's answer has an outcome that contradicts its state")
	case f.Outcome != nil:
		return f.Outcome.check()
	case f.Known != KnownNot && f.Known != KnownOpen && f.Known != KnownAgain && f.Known != KnownOver && f.Known != KnownRefused:
		return errors.New("a look-up's answer with an unknown state")
	}
	return nil
}

// Keys hands over a newer key of the bridge, signed with one that the relay trusts.
type Keys struct {
	Public string `json:"public"`
	// By is the id of the key that made Sig.
	By  string `json:"by"`
	Sig string `json:"sig"`
}

// Pinned says which keys of the bridge the relay trusts from now on.
type Pinned struct {
	Pins []string `json:"pins"`
}

// Offers is the whole list of what the relay may run.
type Offers struct {
	Offers []Offer `json:"offers"`
}

// Answered names a request for which asking again, under the same id and without an approval, gives an answer now. It does not say
// which one.
type Answered struct {
	ID string `json:"id"`
}

// Tail is the end of what a running request has written, see [Output].
type Tail struct {
	ID     string `json:"id"`
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
}

// ReadFrame reads one frame strictly: unknown, repeated and case-variant keys, more or fewer than one member, and
// anything behind the document are refused.
func ReadFrame(data []byte) (Frame, error) { return readFrame(data, strictjson.MaxBytes) }

func readFrame(data []byte, limit int) (Frame, error) {
	var f Frame
	if err := strictjson.DecodeExactUpTo(data, &f, limit); err != nil {
		return Frame{}, fmt.Errorf("read frame: %w", err)
	}
	if n := f.members(); n != 1 {
		return Frame{}, fmt.Errorf("read frame: %d members; a frame has exactly one", n)
	}
	if err := f.check(); err != nil {
		return Frame{}, fmt.Errorf("read frame: %w", err)
	}
	return f, nil
}

// Bytes encodes the frame. What ReadFrame returned comes out as a frame that reads the same. A "<" stays one byte, because
// MaxToBridge counts on it.
func (f Frame) Bytes() ([]byte, error) {
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(f); err != nil {
		return nil, fmt.Errorf("write frame: %w", err)
	}
	return bytes.TrimSuffix(data.Bytes(), []byte("\n")), nil
}

func (f Frame) members() (n int) {
	for _, there := range []bool{
		f.Hello != nil, f.Challenge != nil, f.Proof != nil, f.Welcome != nil, f.Offers != nil,
		f.Keys != nil, f.Pinned != nil, f.Request != nil, f.Output != nil, f.Outcome != nil, f.Answered != nil,
		f.Kept != nil, f.Lookup != nil, f.Found != nil, f.Switch != nil, f.Asking != nil,
		f.Chunked != nil, f.Chunk != nil, f.Receipt != nil, f.Turn != nil, f.TurnLookup != nil, f.Ended != nil, f.TurnFound != nil,
		f.TurnStop != nil, f.TurnStopped != nil, f.TurnPeek != nil, f.TurnPeeked != nil, f.MCPCall != nil, f.MCPCancel != nil, f.MCPPart != nil,
		f.Permission != nil, f.Permitted != nil, f.PermissionWait != nil, f.Permit != nil,
	} {
		if there {
			n++
		}
	}
	return n
}

// check holds the bounds of each frame's fields, so that neither end has to remember them.
func (f Frame) check() error {
	switch {
	case f.Hello != nil:
		return f.Hello.check()
	case f.Proof != nil:
		return f.Proof.check()
	case f.Found != nil:
		return f.Found.check()
	case f.Asking != nil:
		return f.Asking.check()
	case f.Ended != nil:
		return f.Ended.check()
	case f.TurnFound != nil:
		return f.TurnFound.check()
	case f.TurnStopped != nil:
		return f.TurnStopped.check()
	case f.TurnPeeked != nil:
		return f.TurnPeeked.check()
	case f.Permission != nil:
		return f.Permission.check()
	case f.Permitted != nil:
		return f.Permitted.check()
	case f.PermissionWait != nil:
		return f.PermissionWait.check()
	case f.MCPCall != nil:
		return f.MCPCall.Check()
	case f.MCPCancel != nil:
		return f.MCPCancel.check()
	case f.MCPPart != nil:
		return f.MCPPart.check()
	case f.Chunked != nil:
		return f.Chunked.check()
	case f.Chunk != nil:
		return f.Chunk.check()
	case f.Receipt != nil:
		return f.Receipt.check()
	case f.Offers != nil:
		return f.Offers.check()
	case f.Pinned != nil:
		return checkPins(f.Pinned.Pins)
	case f.Output != nil:
		if !ValidRequestID(f.Output.ID) || len(f.Output.Stdout) > 2*MaxProgress || len(f.Output.Stderr) > 2*MaxProgress {
			return errors.New("output without an id, or larger than is allowed")
		}
	case f.Outcome != nil:
		return f.Outcome.check()
	case f.Answered != nil && !ValidRequestID(f.Answered.ID):
		return errors.New("an answer without an id")
	}
	return nil
}

// maxPins bounds the pins that a relay lists.
const maxPins = 8

func checkPins(pins []string) error {
	if len(pins) == 0 || len(pins) > maxPins {
		return fmt.Errorf("%d pins; there must be 1 to %d", len(pins), maxPins)
	}
	for _, pin := range pins {
		if raw, err := hex.DecodeString(pin); err != nil || len(raw) != keyIDSize {
			return errors.New("a pin is not the id of a key")
		}
	}
	return nil
}

// MaxEpoch is the highest epoch. A relay that connects a thousand times a second reaches it in 292,000 years.
const MaxEpoch = int64(1) << 53

func (p Proof) check() error {
	if p.Epoch < 0 || p.Epoch > MaxEpoch || p.Process == "" && p.Epoch != 0 || p.Process != "" && !ValidRequestID(p.Process) {
		return errors.New("a proof whose epoch or process is malformed")
	}
	return nil
}

func (h Hello) check() error {
	if !ValidAction(h.Relay) {
		return errors.New("the relay's name is not valid")
	}
	if len(h.Nonce) != nonceText {
		return errors.New("the nonce is not valid")
	}
	return checkPins(h.Pins)
}

func (o Offers) check() error {
	if len(o.Offers) > MaxOffers {
		return fmt.Errorf("%d offers; at most %d are allowed", len(o.Offers), MaxOffers)
	}
	seen, shown := make(map[string]bool, len(o.Offers)), 0
	for _, offer := range o.Offers {
		if !ValidAction(offer.Action) || len(offer.Approval) > 64 || len(offer.Definition) > 128 || seen[offer.Action] {
			return errors.New("an offer is malformed, or is listed twice")
		}
		if !offer.placed() {
			return errors.New("an offer must say in exactly one way who may approve it")
		}
		if !ValidShows(offer.Shows) {
			return errors.New("an offer is too long, or has characters that are not printable ASCII")
		}
		seen[offer.Action] = true
		shown += len(offer.Shows)
	}
	if shown > MaxShown {
		return fmt.Errorf("the offers show %d bytes; at most %d are allowed", shown, MaxShown)
	}
	return nil
}

// placed reports whether ApproveBy is a place, or not said, and agrees with Bridge.
func (o Offer) placed() bool {
	switch o.ApproveBy {
	case "":
		return true
	case AtMachine:
		return !o.Bridge
	case AtBridge, AtEither:
		return o.Bridge
	default:
		return false
	}
}

// ValidShows reports whether text fits [Outcome.Shows]: at most [MaxShows] bytes of printable ASCII.
func ValidShows(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return len(text) <= MaxShows
}

func (o Outcome) check() error {
	switch {
	case !ValidRequestID(o.ID):
		return errors.New("outcome without an id")
	case !o.Status.Known():
		return errors.New("outcome with an unknown status")
	case (o.Status == StatusRefused) != (o.Refusal != ""):
		return errors.New("the status and the refusal of this outcome contradict each other")
	case o.RetryMS < 0 || o.DurationMS < 0 || o.StdoutOmitted < 0 || o.StderrOmitted < 0:
		return errors.New("outcome with a negative number")
	case !ValidShows(o.Shows):
		return errors.New("outcome shows a text that is too long, or is not printable ASCII")
	}
	return nil
}

// checkText bounds what an agent wrote.
func checkText(what, text string, limit int) error {
	if len(text) > limit || !utf8.ValidString(text) {
		return fmt.Errorf("%s is longer than %d bytes or is not UTF-8", what, limit)
	}
	return nil
}
