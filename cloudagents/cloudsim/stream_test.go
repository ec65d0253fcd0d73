package cloudsim_test

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"drawbridge/cloudagents/cloudsim"
	"drawbridge/cloudagents/cloudsim/script"
)

const richScript = `
latency: 400ms
default:
  reply: "Added a <health> check & a test.\nSUBAGENT: repo=github.com/me/docs, prompt=Écris-le"
  thinking: Where is the router?
  branch: cursor/health-1
  tools:
    - { name: read_file, args: { path: main.go }, result: { success: { totalLines: 3 } } }
    - { name: await, unfinished: true }
`

func frames(a answer) []string {
	return strings.SplitAfter(strings.TrimSuffix(a.Body.String(), ""), "\n\n")
}

// idOf is the id line of a frame, "" for none.
func idOf(frame string) string {
	rest, ok := strings.CutPrefix(frame, "id: ")
	if !ok {
		return ""
	}
	id, _, _ := strings.Cut(rest, "\n")
	return id
}

func TestStreamIsByteExact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, richScript, func(o *cloudsim.Options) { o.Rand = &counter{} })
		_, run := s.create()
		a := s.do("GET", run+"/stream", "", "Accept", "text/event-stream").want(200)
		if got := a.Header().Get("X-Cursor-Stream-Retention-Seconds"); got != "345600" {
			t.Errorf("retention %q", got)
		}
		if got := a.Header().Get("Content-Type"); !strings.HasPrefix(got, "text/event-stream") {
			t.Errorf("content type %q", got)
		}
		want, err := os.ReadFile("testdata/stream.sse")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), a.Body.String()); diff != "" {
			t.Errorf("stream differs (-want +got):\n%s", diff)
		}
	})
}

func TestStreamReplaysAndResumes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, richScript)
		_, run := s.create()
		live := frames(s.do("GET", run+"/stream", ""))
		replay := frames(s.do("GET", run+"/stream", ""))
		if !strings.Contains(replay[0], `"status":"FINISHED"`) || strings.HasPrefix(replay[0], "id:") {
			t.Errorf("lead is %q", replay[0])
		}
		var withID []string
		for _, f := range live {
			if idOf(f) != "" {
				withID = append(withID, f)
			}
		}
		if diff := cmp.Diff(withID, replay[1:len(replay)-1]); diff != "" {
			t.Errorf("replay differs from live (-live +replay):\n%s", diff)
		}
		for i, f := range withID {
			var want []string
			for _, later := range withID[i:] {
				if idOf(later) != idOf(f) {
					want = append(want, later)
				}
			}
			got := frames(s.do("GET", run+"/stream", "", "Last-Event-ID", idOf(f)))
			if diff := cmp.Diff(append([]string{replay[0]}, want...), got[:len(got)-1]); diff != "" {
				t.Errorf("resume behind %q (-want +got):\n%s", idOf(f), diff)
			}
		}
		s.do("GET", run+"/stream", "", "Last-Event-ID", "1-0").want(400).expect("error.code", "invalid_last_event_id")
		time.Sleep(4*24*time.Hour - time.Second)
		s.do("GET", run+"/stream", "").want(200)
		time.Sleep(time.Second)
		s.do("GET", run+"/stream", "").want(410).expect("error.code", "stream_expired")
	})
}

func TestStreamOfAQuietRunHasHeartbeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, "latency: 2m\ndefault: { reply: x }\nsettings: { heartbeat: 10s }")
		_, run := s.create()
		a := s.do("GET", run+"/stream", "")
		if n := strings.Count(a.Body.String(), "event: heartbeat\ndata: {}\n\n"); n < 9 || n > 13 {
			t.Errorf("%d heartbeats in two minutes", n)
		}
		last, seen := "", map[string]int{}
		for _, f := range frames(a) {
			id := idOf(f)
			if id == "" {
				continue
			}
			seen[id]++
			if seen[id] > 2 || id != last && seen[id] > 1 {
				t.Errorf("id %q comes back", id)
			}
			last = id
		}
	})
}

func TestStreamFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, "latency: 1s")
		_, run := s.create()
		time.Sleep(500 * time.Millisecond)
		s.fault(cloudsim.Fault{Kind: script.StreamUnavailable, Times: 1})
		got := s.do("GET", run+"/stream", "").want(200).Body.String()
		if !strings.Contains(got, `data: {"code":"stream_unavailable"`) || !strings.HasSuffix(got, "event: done\ndata: {}\n\n") {
			t.Errorf("stream %q", got)
		}
		s.fault(cloudsim.Fault{Kind: script.Stream410, Times: 1})
		s.do("GET", run+"/stream", "").want(410).expect("error.code", "stream_expired")
		s.do("POST", run+"/cancel", "").want(200)
		s.fault(cloudsim.Fault{Kind: script.CancelledReplayFinished, Times: 1})
		f := frames(s.do("GET", run+"/stream", ""))
		if !strings.Contains(f[0], `"FINISHED"`) || !strings.Contains(strings.Join(f[1:], ""), `"status":"CANCELLED"`) {
			t.Errorf("stream %q", f)
		}
		if f = frames(s.do("GET", run+"/stream", "")); !strings.Contains(f[0], `"CANCELLED"`) {
			t.Errorf("lead %q", f[0])
		}
	})
}

// The result in a failed run's stream carries the run's error, which the vendor's SDK reads there; an ordinary one has none, and
// its repositories have no scheme.
func TestAFailedRunsStreamSaysWhy(t *testing.T) {
	t.Parallel()
	for yaml, want := range map[string]string{
		"default: { status: ERROR, error: { message: boom, code: upstream_error } }": `"error":{"message":"boom","code":"upstream_error"}`,
		"default: { reply: fine, branch: b }":                                        `"repoUrl":"github.com/me/my-app"`,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, yaml)
			_, run := s.create()
			stream := s.do("GET", run+"/stream", "").want(200)
			var result string
			for _, frame := range frames(stream) {
				if strings.Contains(frame, "event: result\n") {
					result = frame
				}
			}
			if !strings.Contains(result, want) || strings.Contains(result, `"error"`) != strings.Contains(want, "error") {
				t.Errorf("%s: the result is %s", yaml, result)
			}
			if said := s.get(run).Body.String(); !strings.Contains(said, want) {
				t.Errorf("%s: the run is %s", yaml, said)
			}
		})
	}
}

// Lists of agents show the metadata of the launch, as a single agent does.
func TestListsShowMetadata(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	a := s.do("POST", "/v1/agents", `{"prompt":{"text":"x"},"repos":[{"url":"https://github.com/me/my-app"}],"metadata":{"team":"a"}}`).want(201)
	s.get("/v1/agents/"+a.text("agent.id")).expect("metadata.team", "a")
	s.get("/v1/agents").expect("items.0.metadata.team", "a")
	a.expect("agent.metadata.team", "a")
}
