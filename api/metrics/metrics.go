// Package metrics counts what happens in a bridge, for Prometheus. It knows the
// words of the timeline and of requests, and looks at nothing by itself. Rule
// of thumb: no label's value comes from outside, or strangers could fill the memory with them.
package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
	"drawbridge/parser"
)

// Metrics counts what happens, in a registry of its own. Safe for concurrent
// use. No label comes from outside: every value is from a fixed list.
type Metrics struct {
	registry    *prometheus.Registry
	events      *prometheus.CounterVec
	turns       *prometheus.CounterVec
	commands    *prometheus.CounterVec
	deliveries  *prometheus.CounterVec
	launches    *prometheus.CounterVec
	actions     *prometheus.CounterVec
	completions *prometheus.CounterVec
	requests    *prometheus.CounterVec
	tools       *prometheus.CounterVec
	throttled   prometheus.Counter
	durations   *prometheus.HistogramVec
	open        *prometheus.GaugeVec
	overdue     prometheus.Gauge
}

// New returns metrics of a bridge of that version.
func New(version string) *Metrics {
	m := &Metrics{
		registry:    prometheus.NewRegistry(),
		events:      counter("events_total", "Lines of the timeline.", "event"),
		turns:       counter("turns_total", "Turns that were sent, replied, failed or became uncertain.", "state", "cause"),
		commands:    counter("commands_total", "Decisions on commands.", "verb", "decision"),
		deliveries:  counter("webhook_deliveries_total", "Webhooks by verdict.", "verdict"),
		launches:    counter("launches_total", "Agents that the API confirmed.", "api"),
		actions:     counter("actions_total", "Actions that a relay answered.", "status"),
		completions: counter("completions_total", "Ends of runs, by the source that reported first.", "source", "status"),
		requests:    counter("http_requests_total", "HTTP requests.", "route", "method", "status"),
		tools:       counter("tool_calls_total", "Calls of the MCP door's tools; ok, or the kind of the error.", "tool", "outcome"),
		throttled:   prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: "tool_calls_refused_total", Help: "Tool calls beyond what one agent may make in a minute."}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: "http_request_seconds",
			Help: "How long HTTP requests took. Streams and /chat wait by design.", Buckets: []float64{.001, .005, .02, .1, .5, 2, 10, 60, 300}}, []string{"route"}),
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: "open",
			Help: "What is open now, up to 1000 (commands: 100). An agent is busy while a turn of it is open."}, []string{"what"}),
		overdue: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: "work_overdue_seconds", Help: "How long the oldest due work has waited."}),
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: "build_info", Help: "Always 1."}, []string{"version"})
	build.WithLabelValues(version).Set(1)
	m.registry.MustRegister(m.events, m.turns, m.commands, m.deliveries, m.launches, m.actions, m.completions, m.requests, m.tools, m.throttled, m.durations, m.open, m.overdue, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

const namespace = "drawbridge"

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

// Registry returns the registry, for metrics that other parts add.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// OnEvent counts an event. It is made to be the engine's OnEvent and never blocks.
func (m *Metrics) OnEvent(e bridge.Event) {
	m.events.WithLabelValues(e.Kind).Inc()
	switch e.Kind {
	case bridge.EventTurn:
		m.turns.WithLabelValues("sent", causeOf(e)).Inc()
	case bridge.EventReply:
		m.turns.WithLabelValues(string(bridge.TurnReplied), causeOf(e)).Inc()
	case bridge.EventTurnFailed:
		m.turns.WithLabelValues(string(bridge.TurnFailed), causeOf(e)).Inc()
	case bridge.EventUncertain:
		m.uncertain(e)
	case bridge.EventGranted, bridge.EventRefused, bridge.EventHeld, bridge.EventApproved, bridge.EventDenied:
		m.commands.WithLabelValues(verbOf(e), e.Kind).Inc()
	case bridge.EventWebhook:
		m.deliveries.WithLabelValues(known(e.Fields["verdict"], bridge.VerdictAccepted, bridge.VerdictStored)).Inc()
	case bridge.EventDuplicate:
		m.deliveries.WithLabelValues(bridge.VerdictDuplicate).Inc()
	case bridge.EventLaunched:
		m.launches.WithLabelValues(known(e.Fields["api"], bridge.APIv1, bridge.APIv0)).Inc()
	case bridge.EventExecuted:
		m.actions.WithLabelValues(known(e.Fields["status"], string(bridge.ActionExecuted), string(bridge.ActionFailed), string(bridge.ActionTimedOut))).Inc()
	case bridge.EventThrottled:
		if n, err := strconv.Atoi(e.Fields["calls"]); err == nil && n > 0 {
			m.throttled.Add(float64(n))
		}
	case bridge.EventCompleted:
		m.completions.WithLabelValues(known(e.Fields["source"], string(bridge.SourcePoll), string(bridge.SourceWebhook), string(bridge.SourceStream)),
			known(e.Fields["status"], string(bridge.RunFinished), string(bridge.RunError), string(bridge.RunCancelled), string(bridge.RunExpired))).Inc()
	}
}

// OnVerdict counts a webhook that was refused, by the receiver's word. It is
// made to be the receiver's OnVerdict; what was recorded is counted by OnEvent.
func (m *Metrics) OnVerdict(verdict string) {
	switch verdict {
	case bridge.VerdictAccepted, bridge.VerdictStored, bridge.VerdictDuplicate:
		return
	}
	m.deliveries.WithLabelValues(verdict).Inc()
}

func causeOf(e bridge.Event) string {
	return known(e.Fields["cause"], string(bridge.CauseUser), string(bridge.CauseLaunch), string(bridge.CauseCompletion), string(bridge.CauseActionOutcome),
		string(bridge.CauseMessage), string(bridge.CauseReminder), string(bridge.CauseReport))
}

// uncertain tells a turn in doubt from an action in doubt: only the latter's
// event names a verb.
func (m *Metrics) uncertain(e bridge.Event) {
	if e.Fields["verb"] != "" {
		m.actions.WithLabelValues(string(bridge.CommandUncertain)).Inc()
		return
	}
	m.turns.WithLabelValues(string(bridge.TurnUncertain), causeOf(e)).Inc()
}

func verbOf(e bridge.Event) string {
	return known(e.Fields["verb"], string(parser.Subagent), string(parser.LocalAction), string(parser.Remind), string(parser.WebhookResult), string(bridge.VerbPermission))
}

// known returns word when it is one of words and not empty, or "unknown".
func known(word string, words ...string) string {
	for _, w := range words {
		if w == word && w != "" {
			return w
		}
	}
	return "unknown"
}

// OnCall counts a tool call. The door knows its tools and the kinds of its errors,
// so that neither label comes from outside. It never blocks.
func (m *Metrics) OnCall(tool, outcome string) { m.tools.WithLabelValues(tool, outcome).Inc() }

// OnServed counts a request under its route's template, never under its path.
func (m *Metrics) OnServed(s httpx.Served) {
	route := s.Route
	if route == "" {
		route = "unmatched"
	}
	method := known(s.Method, http.MethodGet, http.MethodHead, http.MethodPost)
	m.requests.WithLabelValues(route, method, strconv.Itoa(s.Status)).Inc()
	m.durations.WithLabelValues(route).Observe(s.Duration.Seconds())
}

// SetOpen shows what is open at this moment, by kind, and how long the oldest
// due work has waited.
func (m *Metrics) SetOpen(open map[string]int, overdue time.Duration) {
	for what, n := range open {
		m.open.WithLabelValues(what).Set(float64(n))
	}
	m.overdue.Set(overdue.Seconds())
}

// ServeHTTP answers a scrape.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}
