package cloudsim_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// contract is one of the vendor's OpenAPI documents.
type contract map[string]any

func loadContract(t *testing.T, version string) contract {
	t.Helper()
	data, err := os.ReadFile("testdata/openapi/" + version + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c map[string]any // yaml would make inner maps of a named type too
	if err := yaml.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// dig follows keys, and references on the way.
func (c contract) dig(from any, keys ...string) map[string]any {
	node, _ := from.(map[string]any)
	for i := -1; i < len(keys); i++ {
		if i >= 0 {
			node, _ = node[keys[i]].(map[string]any)
		}
		if ref, ok := node["$ref"].(string); ok {
			node = c.dig(map[string]any(c), strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
	}
	return node
}

// response is the schema of an operation's answer, nil when the document has none.
func (c contract) response(method, path string, code int) map[string]any {
	return c.dig(map[string]any(c), "paths", path, strings.ToLower(method), "responses", fmt.Sprint(code), "content", "application/json", "schema")
}

// check lists where v departs from schema. It knows what the two documents use.
func (c contract) check(at string, schema map[string]any, v any) []string {
	schema = c.dig(schema)
	var out []string
	if all, ok := schema["allOf"].([]any); ok {
		for _, part := range all {
			out = append(out, c.check(at, c.dig(part), v)...)
		}
	}
	if words, ok := schema["enum"].([]any); ok && !slices.Contains(words, v) {
		out = append(out, fmt.Sprintf("%s: %v is not in %v", at, v, words))
	}
	switch want, _ := schema["type"].(string); want {
	case "object":
		return append(out, c.checkObject(at, schema, v)...)
	case "array":
		list, ok := v.([]any)
		if !ok {
			return append(out, at+": not a list")
		}
		for i, item := range list {
			out = append(out, c.check(fmt.Sprintf("%s[%d]", at, i), c.dig(schema, "items"), item)...)
		}
	case "string":
		return append(out, checkString(at, schema, v)...)
	case "integer":
		if n, ok := v.(float64); !ok || n != float64(int64(n)) || n < 0 {
			out = append(out, fmt.Sprintf("%s: %v is not a whole number", at, v))
		}
	case "boolean":
		if _, ok := v.(bool); !ok {
			out = append(out, at+": not a boolean")
		}
	}
	return out
}

func (c contract) checkObject(at string, schema map[string]any, v any) []string {
	m, ok := v.(map[string]any)
	if !ok {
		return []string{at + ": not an object"}
	}
	var out []string
	required, _ := schema["required"].([]any)
	for _, key := range required {
		if _, has := m[key.(string)]; !has {
			out = append(out, at+": lacks "+key.(string))
		}
	}
	for key, val := range m {
		if p := c.dig(schema, "properties", key); p != nil {
			out = append(out, c.check(at+"."+key, p, val)...)
		}
	}
	return out
}

var timestamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)

func checkString(at string, schema map[string]any, v any) []string {
	str, ok := v.(string)
	least, _ := schema["minLength"].(int)
	switch {
	case !ok:
		return []string{at + ": not a string"}
	case utf8.RuneCountInString(str) < least:
		return []string{at + ": too short"}
	case schema["format"] == "date-time" && !timestamp.MatchString(str):
		return []string{at + ": " + str + " is no time in milliseconds"}
	case schema["format"] == "uri" && !strings.HasPrefix(str, "http"):
		return []string{at + ": " + str + " is no URL"}
	}
	return nil
}

func TestResponsesFollowTheOpenAPIDocuments(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, `
repositories: [github.com/me/my-app]
settings: { unlimited_repositories: true }
default: { reply: done, branch: b, pr: "https://github.com/me/my-app/pull/7", artifacts: [ { path: a.txt, content: x } ] }
`)
		docs := map[string]contract{"v0": loadContract(t, "v0"), "v1": loadContract(t, "v1")}
		ids := map[string]string{}
		checked := 0
		call := func(method, path, body string, code int) answer {
			t.Helper()
			real := strings.NewReplacer("{id}", ids["id"], "{runId}", ids["runId"]).Replace(path)
			a := s.do(method, real, body).want(code)
			template, _, _ := strings.Cut(path, "?")
			schema := docs[path[1:3]].response(method, template, code)
			if schema == nil {
				t.Errorf("%s %s %d is not in the document", method, template, code)
			}
			for _, p := range docs[path[1:3]].check(method+" "+template, schema, a.body) {
				t.Error(p)
			}
			checked++
			return a
		}
		v1 := call("POST", "/v1/agents", `{"prompt":{"text":"x"},"repos":[{"url":"https://github.com/me/my-app","startingRef":"main"}],"customSubagents":[{"name":"r","description":"d","prompt":"p"}],"skipReviewerRequest":true}`, 201)
		ids["id"], ids["runId"] = v1.text("agent.id"), v1.text("run.id")
		for _, when := range []time.Duration{0, 100 * time.Millisecond, time.Second} {
			time.Sleep(when)
			for _, path := range []string{
				"/v0/me", "/v0/models", "/v0/repositories", "/v0/agents", "/v0/agents/{id}", "/v0/agents/{id}/conversation", "/v0/agents/{id}/artifacts",
				"/v1/me", "/v1/models", "/v1/repositories", "/v1/agents", "/v1/agents/{id}", "/v1/agents/{id}/runs", "/v1/agents/{id}/runs/{runId}",
				"/v1/agents/{id}/usage", "/v1/agents/{id}/artifacts",
			} {
				call("GET", path, "", 200)
			}
		}
		call("GET", "/v0/agents/{id}/artifacts/download?path=/opt/cursor/artifacts/a.txt", "", 200)
		call("GET", "/v1/agents/{id}/artifacts/download?path=artifacts/a.txt", "", 200)
		call("POST", "/v1/agents/{id}/runs/{runId}/cancel", "", 409)
		call("POST", "/v0/agents/{id}/followup", `{"prompt":{"text":"y"}}`, 200)
		call("POST", "/v1/agents/{id}/runs", `{"prompt":{"text":"y"}}`, 409)
		call("POST", "/v0/agents/{id}/stop", "", 200)
		ids["runId"] = call("POST", "/v1/agents/{id}/runs", `{"prompt":{"text":"y"}}`, 201).text("run.id")
		call("POST", "/v1/agents/{id}/runs/{runId}/cancel", "", 200)
		call("POST", "/v1/agents/{id}/archive", "", 200)
		call("POST", "/v1/agents/{id}/unarchive", "", 200)
		call("POST", "/v1/agents", `{}`, 400)
		call("DELETE", "/v1/agents/{id}", "", 200)
		call("GET", "/v1/agents/{id}", "", 404)
		ids["id"] = call("POST", "/v0/agents", hookedV0, 201).text("id")
		call("DELETE", "/v0/agents/{id}", "", 200)
		if checked < 60 {
			t.Errorf("only %d answers were checked", checked)
		}
	})
}
