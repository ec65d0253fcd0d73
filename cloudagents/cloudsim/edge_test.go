package cloudsim_test

import (
	"strings"
	"testing"

	"drawbridge/cloudagents/cloudsim"
	"drawbridge/cloudagents/cloudsim/script"
)

func TestAuthentication(t *testing.T) {
	t.Parallel()
	s := start(t, "keys: [key-one]", func(o *cloudsim.Options) { o.Keys = []string{"key-two"} })
	const missing, wrong = `{"error":{"code":"unauthorized","message":"Missing API key"}}`, `{"code":"error","message":"Invalid User API Key"}`
	for _, tc := range []struct {
		name, header string
		status       int
		body         string
	}{
		{"missing", "", 401, missing},
		{"bearer", "Bearer key-one", 200, ""},
		{"bearer in lower case", "bearer key-two", 200, ""},
		{"basic", "Basic a2V5LW9uZTo=", 200, ""},
		{"basic with a password", "Basic a2V5LW9uZTpwdw==", 401, wrong},
		{"wrong key", "Bearer key-onE", 401, wrong},
		{"empty key", "Bearer ", 401, wrong},
		{"key without scheme", "key-one", 401, wrong},
		{"default key, which is not configured", "Bearer " + cloudsim.DefaultKey, 401, wrong},
	} {
		for _, path := range []string{"/v0/me", "/v1/me", "/_sim/log", "/v1/nothing"} {
			t.Run(tc.name+path, func(t *testing.T) {
				t.Parallel()
				a := s.do("GET", path, "", "Authorization", tc.header)
				if path == "/v1/nothing" && tc.status == 200 {
					a.want(404)
				} else {
					a.want(tc.status)
				}
				if tc.body != "" && a.Body.String() != tc.body {
					t.Errorf("body %s, want %s", a.Body, tc.body)
				}
				if len(a.Header().Get("x-request-id")) != 36 {
					t.Errorf("x-request-id %q", a.Header().Get("x-request-id"))
				}
			})
		}
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	for _, path := range []string{"/", "/v1", "/v1/environments", "//v1/agents", "/v1/../v1/agents", "/v1/agents/", "/v0/agents/bc-1/archive"} {
		s.do("POST", path, createV1).want(404).expect("error.code", "not_found")
	}
	a := s.do("PATCH", "/v1/agents/bc-1", "{}").want(405)
	if got := a.Header().Get("Allow"); got != "DELETE, GET" {
		t.Errorf("Allow %q", got)
	}
	s.wantKinds()
}

func TestAccountAndModels(t *testing.T) {
	t.Parallel()
	s := start(t, "models: [ { id: m-1, name: One, aliases: [one] } ]\naccount: { key_name: CI, first_name: Alex }")
	me := s.get("/v1/me")
	me.expect("apiKeyName", "CI")
	me.expect("userId", 42.0)
	me.expect("userFirstName", "Alex")
	s.get("/v0/me").expect("userId", nil)
	s.get("/v0/models").expect("models.0", "m-1")
	s.get("/v1/models").expect("items.0.displayName", "One")
	service := start(t, "account: { service: true }")
	service.get("/v1/me").expect("userEmail", nil)
}

// v1Bodies are creates with the code that answers them, "" for 201.
var v1Bodies = []struct{ name, body, code string }{
	{"smallest", `{"prompt":{"text":"x"}}`, ""},
	{"no repository", `{"prompt":{"text":"x"},"repos":[]}`, ""},
	{"unknown fields at the top", `{"prompt":{"text":"x"},"agentServeAgent":"y","runEnvVars":{},"branchName":"b"}`, ""},
	{"nothing", ``, "missing_body"},
	{"blanks", " \n", "missing_body"},
	{"not JSON", `{"prompt":`, "validation_error"},
	{"two values", `{"prompt":{"text":"x"}} {}`, "validation_error"},
	{"not an object", `["prompt"]`, "validation_error"},
	{"duplicate key", `{"prompt":{"text":"x"},"prompt":{"text":"y"}}`, "duplicate_json_key"},
	{"duplicate key inside", `{"prompt":{"text":"x","text":"y"}}`, "duplicate_json_key"},
	{"key in another case", `{"Prompt":{"text":"x"}}`, "validation_error"},
	{"deep nesting", `{"prompt":{"text":"x"},"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "validation_error"},
	{"no prompt", `{}`, "validation_error"},
	{"empty text", `{"prompt":{"text":""}}`, "validation_error"},
	{"text of another type", `{"prompt":{"text":1}}`, "validation_error"},
	{"prompt of another type", `{"prompt":"x"}`, "validation_error"},
	{"model as a string", `{"prompt":{"text":"x"},"model":"composer-2"}`, "validation_error"},
	{"model", `{"prompt":{"text":"x"},"model":{"id":"composer-2","params":[{"id":"fast","value":"true"}]}}`, ""},
	{"model by alias", `{"prompt":{"text":"x"},"model":{"id":"composer-latest"}}`, ""},
	{"model parameter that is no string", `{"prompt":{"text":"x"},"model":{"id":"composer-2","params":[{"id":"fast","value":true}]}}`, "validation_error"},
	{"unknown model", `{"prompt":{"text":"x"},"model":{"id":"gpt-0"}}`, "invalid_model"},
	{"model without id", `{"prompt":{"text":"x"},"model":{}}`, "validation_error"},
	{"long name", `{"prompt":{"text":"x"},"name":"` + strings.Repeat("n", 101) + `"}`, "validation_error"},
	{"longest name", `{"prompt":{"text":"x"},"name":"` + strings.Repeat("é", 100) + `"}`, ""},
	{"agentId without bc-", `{"prompt":{"text":"x"},"agentId":"00000000-0000-4000-8000-000000000001"}`, "validation_error"},
	{"agentId with envVars", `{"prompt":{"text":"x"},"agentId":"bc-00000000-0000-4000-8000-000000000001","envVars":{}}`, "validation_error"},
	{"repository without url", `{"prompt":{"text":"x"},"repos":[{"prUrl":"https://github.com/o/r/pull/1"}]}`, "validation_error"},
	{"repository that is no URL", `{"prompt":{"text":"x"},"repos":[{"url":"o/r"}]}`, "validation_error"},
	{"repository as a string", `{"prompt":{"text":"x"},"repos":["https://github.com/o/r"]}`, "validation_error"},
	{"pull request that is none", `{"prompt":{"text":"x"},"repos":[{"url":"https://github.com/o/r","prUrl":"https://github.com/o/r/issues/1"}]}`, "pr_resolution_failed"},
	{"too many repositories", `{"prompt":{"text":"x"},"repos":[` + strings.Repeat(`{"url":"github.com/o/r"},`, 20) + `{"url":"github.com/o/r"}]}`, "validation_error"},
	{"repository out of reach", `{"prompt":{"text":"x"},"repos":[{"url":"github.com/secret/r"}]}`, "repository_access"},
	{"environment and repositories", `{"prompt":{"text":"x"},"env":{"type":"cloud","name":"e"},"repos":[{"url":"github.com/o/r"}]}`, "validation_error"},
	{"unknown kind of environment", `{"prompt":{"text":"x"},"env":{"type":"moon"}}`, "validation_error"},
	{"pool", `{"prompt":{"text":"x"},"env":{"type":"pool"}}`, ""},
	{"unknown pool", `{"prompt":{"text":"x"},"env":{"type":"pool","name":"none"}}`, "validation_error"},
	{"machine with two repositories", `{"prompt":{"text":"x"},"env":{"type":"machine","name":"m"},"repos":[{"url":"github.com/o/r"},{"url":"github.com/o/s"}]}`, "validation_error"},
	{"reserved variable", `{"prompt":{"text":"x"},"envVars":{"CURSOR_X":"1"}}`, "validation_error"},
	{"empty variable", `{"prompt":{"text":"x"},"envVars":{"X":""}}`, "validation_error"},
	{"mode", `{"prompt":{"text":"x"},"mode":"plan"}`, ""},
	{"unknown mode", `{"prompt":{"text":"x"},"mode":"fast"}`, "validation_error"},
	{"flag of another type", `{"prompt":{"text":"x"},"autoCreatePR":"yes"}`, "validation_error"},
	{"server", `{"prompt":{"text":"x"},"mcpServers":[{"name":"a","url":"https://h/mcp","headers":{"A":"b"}},{"name":"b","command":"x","args":["-y"],"env":{}}]}`, ""},
	{"server with an unknown field", `{"prompt":{"text":"x"},"mcpServers":[{"name":"a","command":"x","cwd":"/"}]}`, "validation_error"},
	{"servers of one name", `{"prompt":{"text":"x"},"mcpServers":[{"name":"a","command":"x"},{"name":"a","command":"y"}]}`, "validation_error"},
	{"server with userinfo", `{"prompt":{"text":"x"},"mcpServers":[{"name":"a","url":"https://u:p@h/mcp"}]}`, "validation_error"},
	{"server of both kinds", `{"prompt":{"text":"x"},"mcpServers":[{"name":"a","url":"https://h","command":"x"}]}`, "validation_error"},
	{"subagent", `{"prompt":{"text":"x"},"customSubagents":[{"name":"r","description":"d","prompt":"p","model":"inherit"}]}`, ""},
	{"subagent named like a built-in", `{"prompt":{"text":"x"},"customSubagents":[{"name":"shell","description":"d","prompt":"p"}]}`, "validation_error"},
	{"image", `{"prompt":{"text":"x","images":[{"data":"aGk=","mimeType":"image/png","dimension":{"width":1,"height":2}}]}}`, ""},
	{"image without type", `{"prompt":{"text":"x","images":[{"data":"aGk="}]}}`, "validation_error"},
	{"image given twice", `{"prompt":{"text":"x","images":[{"data":"aGk=","mimeType":"image/png","url":"https://h/i.png"}]}}`, "validation_error"},
	{"image with no width", `{"prompt":{"text":"x","images":[{"url":"https://h/i.png","dimension":{"width":0,"height":2}}]}}`, "validation_error"},
	{"six images", `{"prompt":{"text":"x","images":[` + strings.Repeat(`{"url":"https://h/i"},`, 5) + `{"url":"https://h/i"}]}}`, "validation_error"},
	{"metadata of another type", `{"prompt":{"text":"x"},"metadata":{"a":1}}`, "validation_error"},
}

var v0Bodies = []struct{ name, body, code string }{
	{"smallest", createV0, ""},
	{"no source", `{"prompt":{"text":"x"}}`, "repository_required"},
	{"duplicate key is taken", `{"prompt":{"text":"x"},"source":{"repository":"https://github.com/o/q"},"source":{"repository":"https://github.com/o/r"}}`, ""},
	{"model", `{"prompt":{"text":"x"},"model":"default","source":{"repository":"https://github.com/o/r"}}`, ""},
	{"model as an object", `{"prompt":{"text":"x"},"model":{"id":"composer-2"},"source":{"repository":"https://github.com/o/r"}}`, "validation_error"},
	{"unknown model", `{"prompt":{"text":"x"},"model":"gpt-0","source":{"repository":"https://github.com/o/r"}}`, "invalid_model"},
	{"pull request", `{"prompt":{"text":"x"},"source":{"prUrl":"https://github.com/o/r/pull/3"},"target":{"autoBranch":false}}`, ""},
	{"pull request and repository", `{"prompt":{"text":"x"},"source":{"prUrl":"https://github.com/o/r/pull/3","repository":"https://github.com/o/r"}}`, "validation_error"},
	{"no pull request", `{"prompt":{"text":"x"},"source":{"prUrl":"https://github.com/o/r"}}`, "pr_resolution_failed"},
	{"no image data", `{"prompt":{"text":"x","images":[{"url":"https://h/i"}]},"source":{"repository":"https://github.com/o/r"}}`, "validation_error"},
	{"webhook", `{"prompt":{"text":"x"},"source":{"repository":"https://github.com/o/r"},"webhook":{"url":"https://example.com/h"}}`, ""},
	{"webhook without url", `{"prompt":{"text":"x"},"source":{"repository":"https://github.com/o/r"},"webhook":{}}`, "validation_error"},
	{"webhook that is no URL", `{"prompt":{"text":"x"},"source":{"repository":"https://github.com/o/r"},"webhook":{"url":"h"}}`, "validation_error"},
	{"short secret", `{"prompt":{"text":"x"},"source":{"repository":"https://github.com/o/r"},"webhook":{"url":"https://h/","secret":"` + strings.Repeat("s", 31) + `"}}`, "validation_error"},
	{"shortest secret", `{"prompt":{"text":"x"},"source":{"repository":"https://github.com/o/r"},"webhook":{"url":"https://h/","secret":"` + strings.Repeat("s", 32) + `"}}`, ""},
	{"long secret", `{"prompt":{"text":"x"},"source":{"repository":"https://github.com/o/r"},"webhook":{"url":"https://h/","secret":"` + strings.Repeat("s", 257) + `"}}`, "validation_error"},
	{"long url", `{"prompt":{"text":"x"},"source":{"repository":"https://github.com/o/r"},"webhook":{"url":"https://h/` + strings.Repeat("u", 2048) + `"}}`, "validation_error"},
	{"nothing", ``, "missing_body"},
}

func TestCreateBodies(t *testing.T) {
	t.Parallel()
	for api, cases := range map[string][]struct{ name, body, code string }{"v1": v1Bodies, "v0": v0Bodies} {
		for _, tc := range cases {
			t.Run(api+"/"+tc.name, func(t *testing.T) {
				t.Parallel()
				s := start(t, "access: [github.com/me/*, github.com/o/*]")
				a := s.do("POST", "/"+api+"/agents", tc.body)
				if tc.code == "" {
					a.want(201)
					s.wantKinds(cloudsim.AgentCreated)
					return
				}
				a.want(400).expect("error.code", tc.code)
				s.wantKinds()
			})
		}
	}
}

func TestErrorShapes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ shape, want string }{
		{"A", `{"error":{"code":"agent_not_found","message":"Agent not found"}}`},
		{"B", `{"error":"Agent not found"}`},
		{"C", `{"code":"error","message":"Agent not found"}`},
		{"D", `{"error":"Not Found","message":"Agent not found"}`},
		{"E", "<html><body><h1>404 Not Found</h1></body></html>\n"},
	} {
		t.Run(tc.shape, func(t *testing.T) {
			t.Parallel()
			s := start(t, "")
			s.fault(cloudsim.Fault{Kind: script.ErrorShape, Shape: tc.shape, API: script.V0, Times: 1})
			const path = "/agents/bc-00000000-0000-4000-8000-000000000009"
			s.do("GET", "/v1"+path, "").expect("error.code", "agent_not_found")
			if got := s.do("GET", "/v0"+path, "").want(404).Body.String(); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
			s.do("GET", "/v0"+path, "").expect("error.code", "agent_not_found")
		})
	}
	observed := start(t, "settings: { v0_errors: observed, access_status: 403 }\naccess: [github.com/x/*]")
	observed.do("POST", "/v0/agents", `{"prompt":{"text":"x"},"model":"gpt-0","source":{"repository":"https://github.com/o/r"}}`).
		want(400).expect("error", "Model 'gpt-0' is not available or invalid.")
	observed.do("POST", "/v0/agents", createV0).want(403).expect("error.code", "repository_access")
}
