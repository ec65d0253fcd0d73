package request_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drawbridge/cloudagents/cloudsim/internal/request"
	"drawbridge/cloudagents/cloudsim/script"
)

func rules(t testing.TB) request.Rules {
	t.Helper()
	book, err := script.Compile(&script.Script{})
	if err != nil {
		t.Fatal(err)
	}
	return request.Rules{Settings: script.Settings{}.WithDefaults(), Book: book, Models: script.DefaultModels()}
}

func TestLaunchKeepsWhatWasAsked(t *testing.T) {
	t.Parallel()
	yes := true
	for _, tc := range []struct {
		api  script.API
		body string
		want request.Launch
	}{
		{script.V1, `{"prompt":{"text":"x"},"name":"n","repos":[{"url":"https://github.com/O/r.git","startingRef":"main"}],"autoCreatePR":true,"metadata":{"a":"b"}}`, request.Launch{
			API: script.V1, Prompt: "x", Name: "n", Repos: []request.RepoRef{{Path: "github.com/O/r", Ref: "main"}}, Env: request.EnvRef{Type: "cloud"},
			AutoCreatePR: &yes, Metadata: map[string]string{"a": "b"},
		}},
		{script.V0, `{"prompt":{"text":"x"},"source":{"prUrl":"https://github.com/o/r/pull/3"},"target":{"branchName":"b"}}`, request.Launch{
			API: script.V0, Prompt: "x", Repos: []request.RepoRef{{Path: "github.com/o/r"}}, Env: request.EnvRef{Type: "cloud"},
			Branch: "b", PRURL: "https://github.com/o/r/pull/3",
		}},
	} {
		t.Run(string(tc.api), func(t *testing.T) {
			t.Parallel()
			got, err := rules(t).Launch(request.Parse(tc.api, strings.NewReader(tc.body)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("launch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMessagesNameTheField(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"prompt":{"text":"x"},"model":"m"}`:                                   "model must be an object",
		`{"prompt":{"text":"x"},"repos":[{"url":"github.com/o/r"},{"url":1}]}`:  "repos[1].url must be a string",
		`{"prompt":{"text":"x"},"mcpServers":[{"name":"a","url":"ftp://h"}]}`:   "mcpServers[0].url must be an http or https URL",
		`{"prompt":{"text":"x","images":[{"url":"https://h","dimension":{}}]}}`: "prompt.images[0].dimension.width is required",
	} {
		_, err := rules(t).Launch(request.Parse(script.V1, strings.NewReader(body)))
		var refusal *request.Refusal
		if !errors.As(err, &refusal) || refusal.Message != want || refusal.Status != http.StatusBadRequest {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

func TestTitle(t *testing.T) {
	t.Parallel()
	for prompt, want := range map[string]string{
		"": "Untitled", " \n\n": "Untitled", "Add tests\nand docs": "Add tests", "  Fix it  ": "Fix it",
		strings.Repeat("é", 61): strings.Repeat("é", 60) + "…",
	} {
		if got := request.Title(prompt); got != want {
			t.Errorf("%q: %q, want %q", prompt, got, want)
		}
	}
}

// FuzzLaunch holds that a body is either refused with a status of 400, or has a prompt and sound repositories.
func FuzzLaunch(f *testing.F) {
	f.Add(true, `{"prompt":{"text":"x"},"repos":[{"url":"https://github.com/o/r"}],"agentId":"bc-00000000-0000-4000-8000-000000000001"}`)
	f.Add(false, `{"prompt":{"text":"x"},"source":{"repository":"https://github.com/o/r"},"webhook":{"url":"http://127.0.0.1/"}}`)
	f.Add(true, `{"prompt":null,"model":[],"mcpServers":[{"name":"a"}],"env":{"type":"pool"}}`)
	r := rules(f)
	f.Fuzz(func(t *testing.T, v1 bool, body string) {
		api := script.V0
		if v1 {
			api = script.V1
		}
		b := request.Parse(api, strings.NewReader(body))
		_ = b.Repo()
		l, err := r.Launch(b)
		var refusal *request.Refusal
		switch {
		case errors.As(err, &refusal):
			w := httptest.NewRecorder()
			refusal.Write(w)
			if w.Code != http.StatusBadRequest {
				t.Errorf("status %d for %q", w.Code, body)
			}
		case err != nil:
			t.Errorf("error %v is no refusal", err)
		case l.Prompt == "":
			t.Errorf("%q was taken without a prompt", body)
		default:
			for _, repo := range l.Repos {
				if p, ok := script.RepoPath(repo.Path); !ok || p != repo.Path {
					t.Errorf("repository %q of %q", repo.Path, body)
				}
			}
		}
	})
}
