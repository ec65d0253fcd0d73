package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// maxTestAnswer bounds what a script reads of one answer, in bytes.
const maxTestAnswer = 64 << 20

// request is one call of a script.
type request struct {
	method, url string
	body        io.Reader
	headers     []string
}

// ask sends a request with the token of whom it goes to, unless a header says otherwise. A header without a value is left out, and @name.token in one stands for that file.
func (r request) ask(ts *testscript.TestScript) (status int, body []byte, err error) {
	req, err := http.NewRequest(r.method, r.url, r.body)
	ts.Check(err)
	token := operatorToken
	if file := ts.Getenv("TOKENFILE"); file != "" { // a bridge that init made
		token = strings.TrimSpace(ts.ReadFile(file))
	}
	if cloud := ts.Getenv("CLOUD"); cloud != "" && strings.HasPrefix(r.url, cloud) {
		token = cursorKey
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, header := range r.headers {
		name, value, _ := strings.Cut(header, ":")
		if value = strings.TrimSpace(value); value == "" {
			req.Header.Del(name)
			continue
		}
		if before, file, ok := strings.Cut(value, "@"); ok && strings.HasSuffix(file, ".token") {
			value = before + strings.TrimSpace(ts.ReadFile(file))
		}
		req.Header.Set(name, value)
		if name == "Host" {
			req.Host = value
		}
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxTestAnswer))
	return resp.StatusCode, body, err
}

// callHTTP is "http <METHOD> <url> [body or @file] [Header: value]...": it prints the status and the answer.
func callHTTP(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: http <METHOD> <url> [body or @file] [Header: value]...")
	}
	r := request{method: args[0], url: args[1]}
	if len(args) > 2 {
		text := args[2]
		if name, ok := strings.CutPrefix(text, "@"); ok {
			text = ts.ReadFile(name)
		}
		if text != "" {
			r.body = strings.NewReader(text)
		}
		r.headers = args[3:]
	}
	status, body, err := r.ask(ts)
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "%d %s\n", status, body)
}

// sendHTTP is "send <name> <METHOD> <url> <body>": it sends a request and goes on.
func sendHTTP(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: send <name> <METHOD> <url> <body>")
	}
	answer := make(chan string, 1)
	ts.Value(stageKey{}).(*testStage).inFlight[args[0]] = answer
	r := request{method: args[1], url: args[2], body: strings.NewReader(args[3])}
	go func() {
		status, body, err := r.ask(ts)
		answer <- fmt.Sprintf("%d %s %v", status, body, err)
	}()
}

// landHTTP is "land <name>": it waits for the answer to an earlier request and prints it.
func landHTTP(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: land <name>")
	}
	select {
	case answer := <-ts.Value(stageKey{}).(*testStage).inFlight[args[0]]:
		fmt.Fprintln(ts.Stdout(), answer)
	case <-time.After(patience):
		ts.Fatalf("no answer")
	}
}

// waitJSON is "until <url> <path> <value>": it waits until the value is at the path of the answer.
// A path is keys with dots between; a list is its elements, [key=value] keeps some of them, and count:path counts.
func waitJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: until <url> <path> <value>")
	}
	poll(ts, args[1]+" "+args[2], func() (bool, string) {
		_, body, err := request{method: http.MethodGet, url: args[0]}.ask(ts)
		if err != nil {
			return false, err.Error()
		}
		return holds(body, args[1], args[2]), string(body)
	})
}

// expectJSON is "expect <url> <path> <value>": until without waiting. The url may be stdout or a file, too.
func expectJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: expect <url or file> <path> <value>")
	}
	body := readJSON(ts, args[0])
	if holds(body, args[1], args[2]) == neg {
		ts.Fatalf("%s: %s", args[1], body)
	}
}

// printField is "json <url or file> <path> <NAME>": it puts the first value at the path into a variable.
func printField(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: json <url or file> <path> <NAME>")
	}
	body := readJSON(ts, args[0])
	found, err := look(body, args[1])
	ts.Check(err)
	if len(found) == 0 {
		ts.Fatalf("nothing at %s in %s", args[1], body)
	}
	ts.Setenv(args[2], found[0])
}

func readJSON(ts *testscript.TestScript, from string) []byte {
	if !strings.HasPrefix(from, "http") {
		return []byte(strings.TrimLeft(ts.ReadFile(from), "0123456789 ")) // what http prints has the status in front
	}
	_, body, err := request{method: http.MethodGet, url: from}.ask(ts)
	ts.Check(err)
	return body
}

func holds(body []byte, path, want string) bool {
	path, count := strings.CutPrefix(path, "count:")
	found, err := look(body, path)
	if err != nil {
		return false
	}
	if count {
		return strconv.Itoa(len(found)) == want
	}
	for _, value := range found {
		if value == want {
			return true
		}
	}
	return false
}

var pathStep = regexp.MustCompile(`^([a-zA-Z_0-9]*)((?:\[[a-zA-Z_]+=[^\]]*\])*)(?:\.|$)`)

// look returns what is at a path of a JSON text, as text.
func look(body []byte, path string) (found []string, err error) {
	var root any
	if err := json.Unmarshal(body, &root); err != nil {
		return nil, err
	}
	values := flat(root)
	for rest := path; rest != ""; {
		m := pathStep.FindStringSubmatch(rest)
		if m == nil || m[0] == "" {
			return nil, errors.New("bad path " + path)
		}
		rest = rest[len(m[0]):]
		if m[1] != "" {
			values = members(values, m[1])
		}
		for _, filter := range strings.FieldsFunc(m[2], func(r rune) bool { return r == '[' || r == ']' }) {
			key, want, _ := strings.Cut(filter, "=")
			values = matching(values, key, want)
		}
	}
	for _, v := range values {
		found = append(found, plain(v))
	}
	return found, nil
}

func members(values []any, key string) (out []any) {
	for _, v := range values {
		if object, ok := v.(map[string]any); ok {
			if member, ok := object[key]; ok {
				out = append(out, flat(member)...)
			}
		}
	}
	return out
}

func matching(values []any, key, want string) (out []any) {
	for _, v := range values {
		if object, ok := v.(map[string]any); ok && plain(object[key]) == want {
			out = append(out, v)
		}
	}
	return out
}

func flat(v any) []any {
	if list, ok := v.([]any); ok {
		return list
	}
	return []any{v}
}

func plain(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// readTestFile is os.ReadFile for files that have to be there.
func readTestFile(t interface{ Fatal(...any) }, path string) []byte {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
