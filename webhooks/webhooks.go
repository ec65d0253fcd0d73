package webhooks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/gorilla/mux"
	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/internal/clip"
	"drawbridge/internal/httpx"
)

// Path is the route of the receiver. The engine writes it into each launch.
const Path = "/hooks/cursor/{keyver}/{op}"

// DefaultMaxBody bounds a delivery's body (facts: Webhook receiver, rule 1).
const DefaultMaxBody = 1 << 20

// minSecret is the shortest bridge key that a receiver starts with (rule 2).
const minSecret = 32

// Recorder is what the receiver needs of the engine.
type Recorder interface {
	// RecordDelivery stores a delivery durably before it returns nil, and tells
	// whether it was new. Twice is fine. Errors: NotFound, Conflict for another
	// agent's delivery, and anything else for a store that is down.
	RecordDelivery(ctx context.Context, d bridge.Delivery) (verdict string, err error)
}

// Options configures a Receiver. Bridge and Keys are required.
type Options struct {
	Bridge Recorder
	// Keys are all active keys; each needs an id of [A-Za-z0-9._-] and at least 32 bytes.
	Keys bridge.Keys
	// MaxBody is the largest body in bytes; 0 means DefaultMaxBody.
	MaxBody int64
	// OnVerdict is called once for each request to the path with the word of its log line. It must not block.
	OnVerdict func(verdict string)
	Log       zerolog.Logger
}

// Receiver receives webhooks. Safe for concurrent use.
type Receiver struct {
	o    Options
	keys []bridge.Key
}

// maxNoted bounds what strangers may write into the log, in bytes.
const maxNoted = 80

var validKeyID = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$`)

// New refuses to make a receiver without keys, with a short one, or with two of
// one id: such a receiver would let strangers in, or keep the API out.
func New(o Options) (*Receiver, error) {
	if o.Bridge == nil {
		return nil, errors.New("webhook receiver needs a recorder")
	}
	keys := append([]bridge.Key{o.Keys.Current}, o.Keys.Old...)
	seen := make(map[string]bool, len(keys))
	for _, k := range keys {
		switch {
		case !validKeyID.MatchString(k.ID):
			return nil, fmt.Errorf("webhook key id %q: use 1 to 64 letters, digits, dots, dashes and underscores", k.ID)
		case len(k.Secret) < minSecret:
			return nil, fmt.Errorf("webhook key %q has %d bytes; at least %d are needed", k.ID, len(k.Secret), minSecret)
		case seen[k.ID]:
			return nil, fmt.Errorf("webhook key id %q is used twice", k.ID)
		}
		seen[k.ID] = true
	}
	if o.MaxBody <= 0 {
		o.MaxBody = DefaultMaxBody
	}
	if o.OnVerdict == nil {
		o.OnVerdict = func(string) {}
	}
	return &Receiver{o: o, keys: keys}, nil
}

// Register adds the receiver's route to a router that uses encoded paths and
// does not clean them; one that cleans would redirect a POST.
func (rc *Receiver) Register(r *mux.Router) {
	r.HandleFunc(Path, rc.receive)
}

// Handler returns the receiver as a handler of its own. It recovers from
// panics, answers 404 to every other path and redirects nowhere.
func (rc *Receiver) Handler() http.Handler {
	r := mux.NewRouter().SkipClean(true).UseEncodedPath()
	r.NotFoundHandler = http.HandlerFunc(rc.notFound)
	rc.Register(r)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		defer rc.recovered(w)
		r.ServeHTTP(w, req)
	})
}

func (rc *Receiver) notFound(w http.ResponseWriter, r *http.Request) {
	rc.o.Log.Info().Str("path", clip.Text(r.URL.EscapedPath(), maxNoted)).Str("verdict", "no_route").Int("code", http.StatusNotFound).Msg("webhook")
	httpx.WriteError(w, http.StatusNotFound, string(bridge.NotFound), "not found")
}

// recovered answers a bug of ours with 503: the sender tries again later.
func (rc *Receiver) recovered(w http.ResponseWriter) {
	p := recover()
	if p == nil {
		return
	}
	rc.o.Log.Error().Str("verdict", "panic").Err(fmt.Errorf("panic: %v", p)).Msg("webhook")
	httpx.SetRetryAfter(w.Header(), retryAfter)
	httpx.WriteError(w, http.StatusServiceUnavailable, string(bridge.Unavailable), "try again later")
}

// retryAfter is what a sender is asked to wait when the store is down.
const retryAfter = 5 * time.Second

// answer is what a delivery gets: a status, and a verdict for answer and log.
type answer struct {
	code    int
	verdict string
	// message is for the sender; empty when code is 200.
	message string
	// cause is for the log.
	cause error
}

// The answers that tell nothing but their status. An unknown operation gets the
// very bytes that a bad signature gets (rule 3).
var (
	unauthenticated = answer{code: http.StatusUnauthorized, verdict: "bad_signature", message: "the signature is not right"}
	tooLarge        = answer{code: http.StatusRequestEntityTooLarge, verdict: "too_large", message: "the body is too large"}
	unreadable      = answer{code: http.StatusBadRequest, verdict: "unreadable", message: "the body could not be read"}
	foreign         = answer{code: http.StatusBadRequest, verdict: "foreign_agent", message: "the id is not this operation's agent"}
	wrongMethod     = answer{code: http.StatusMethodNotAllowed, verdict: "wrong_method", message: "use POST"}
)

func malformed(cause error) answer {
	return answer{code: http.StatusBadRequest, verdict: "malformed", message: "the body is malformed", cause: cause}
}

func storageDown(cause error) answer {
	return answer{code: http.StatusServiceUnavailable, verdict: "storage_down", message: "not recorded; try again later", cause: cause}
}

// visit is one delivery on its way through, and what its log line says.
type visit struct {
	keyver  string
	op      bridge.AgentID
	body    []byte
	payload payload
	start   time.Time
}

func (rc *Receiver) receive(w http.ResponseWriter, r *http.Request) {
	vars := mux.Vars(r)
	v := visit{keyver: vars["keyver"], op: bridge.AgentID(vars["op"]), start: time.Now()}
	a := rc.judge(w, r, &v)
	rc.o.OnVerdict(a.verdict)
	rc.logLine(r, v, a)
	switch a.code {
	case http.StatusOK:
		httpx.WriteJSON(w, a.code, map[string]string{"verdict": a.verdict})
		return
	case http.StatusServiceUnavailable:
		httpx.SetRetryAfter(w.Header(), retryAfter)
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	}
	httpx.WriteError(w, a.code, string(kinds[a.code]), a.message)
}

var kinds = map[int]bridge.ErrorKind{
	http.StatusBadRequest:            bridge.Invalid,
	http.StatusUnauthorized:          bridge.Unauthenticated,
	http.StatusMethodNotAllowed:      bridge.Invalid,
	http.StatusRequestEntityTooLarge: bridge.TooLarge,
	http.StatusServiceUnavailable:    bridge.Unavailable,
	httpx.StatusClientGone:           "canceled",
}

// judge takes a request through the rules in their order: cap, signature,
// operation, strict parse, binding, record.
func (rc *Receiver) judge(w http.ResponseWriter, r *http.Request, v *visit) answer {
	if r.Method != http.MethodPost {
		return wrongMethod
	}
	var err error
	v.body, err = httpx.ReadBody(w, r, rc.o.MaxBody)
	switch {
	case errors.Is(err, httpx.ErrTooLarge):
		return tooLarge
	case err != nil:
		return unreadable
	case !rc.signed(r, v):
		return unauthenticated
	}
	if v.payload, err = parse(v.body); err != nil {
		return malformed(err)
	}
	verdict, err := rc.o.Bridge.RecordDelivery(r.Context(), v.delivery(r))
	if status, ok := httpx.CanceledStatus(r, err); ok {
		return answer{code: status, verdict: "canceled", message: "not recorded; try again later", cause: err}
	}
	if err != nil {
		return recordFailure(err)
	}
	return answer{code: http.StatusOK, verdict: verdict}
}

// recordFailure answers for the engine: what is not surely the sender's fault
// is worth another try, and never a 2xx (rule 4).
func recordFailure(err error) answer {
	switch bridge.KindOf(err) {
	case bridge.NotFound:
		a := unauthenticated
		a.verdict = "unknown_operation"
		return a
	case bridge.Conflict:
		return foreign
	}
	return storageDown(err)
}

// delivery is the row: raw body and headers, without what others may have
// added to authenticate themselves to a proxy.
func (v visit) delivery(r *http.Request) bridge.Delivery {
	headers := r.Header.Clone()
	for _, secret := range []string{"Authorization", "Proxy-Authorization", "Cookie", httpx.TokenHeader} {
		headers.Del(secret)
	}
	return bridge.Delivery{
		Op: v.op, External: v.payload.ID, Event: v.payload.Event, Status: v.payload.Status, SentAt: string(v.payload.Timestamp),
		WebhookID: strings.ToValidUTF8(clip.Text(r.Header.Get("X-Webhook-Id"), maxNoted), "?"), Headers: headers, Body: v.body,
	}
}

func (rc *Receiver) logLine(r *http.Request, v visit, a answer) {
	line := rc.o.Log.Info()
	switch {
	case a.verdict == "canceled": // by the sender, or by the stop of the bridge
	case a.code >= http.StatusInternalServerError:
		line = rc.o.Log.Error()
	case a.code != http.StatusOK:
		line = rc.o.Log.Warn()
	}
	line.Str("op", clip.Text(string(v.op), maxNoted)).Str("key", clip.Text(v.keyver, maxNoted)).Str("verdict", a.verdict).Int("code", a.code).
		Str("external", v.payload.ID).Str("event", v.payload.Event).Str("status", v.payload.Status).
		Str("webhook", clip.Text(r.Header.Get("X-Webhook-Id"), maxNoted)).Int("bytes", len(v.body)).Dur("duration_ms", time.Since(v.start)).
		AnErr("cause", a.cause).Msg("webhook")
}
