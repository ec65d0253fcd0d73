package openai_test

import (
	"encoding/json"
	"strings"
	"testing"

	"drawbridge/openai"
)

func agents(o *openai.Options) { o.Backends[0].Agents = true }

// sideCalls are requests as clients were seen to send them, and what the rule answers.
var sideCalls = map[string]struct {
	messages []string
	answer   string
}{
	"OpenCode": {[]string{said("system", "You are a title generator. You output ONLY a thread title. Nothing else.\n\n<task>\nGenerate a brief title."),
		said("user", "Generate a title for this conversation:\n"), said("user", "fix the flaky test in store/callers, please")}, "Fix the flaky test in store/callers, please"},
	"OpenCode, one message": {[]string{said("system", "You are a title generator. You output ONLY a thread title. Nothing else."), said("user", "Generate a title for this conversation:\nhow do I get rich?")}, "How do I get rich"},
	"Crush":                 {[]string{said("system", "You will generate a short title based on the first message a user begins a conversation with"), said("user", "deploy")}, "Deploy"},
	"Open WebUI, title": {[]string{said("user", "### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat history.\n### Output:\nJSON format: { \"title\": \"your concise title here\" }\n### Chat History:\n<chat_history>\nUSER: bake \"bread\" at home\nASSISTANT: Flour.\n</chat_history>")},
		`{"title":"Bake bread at home"}`},
	"Open WebUI, tags": {[]string{said("user", "### Task:\nGenerate 1-3 broad tags categorizing the main themes of the chat history.\n<chat_history>\nUSER: x\n</chat_history>")}, `{"tags": ["General"]}`},
	"Open WebUI, follow-ups": {[]string{said("user", "### Task:\nSuggest 3-5 relevant follow-up questions or prompts that the user might naturally ask next in this conversation as a **user**.\n<chat_history>\nUSER: x\n</chat_history>")},
		`{"follow_ups": []}`},
	"LibreChat":             {[]string{said("user", "Provide a concise, 5-word-or-less title for the conversation, using title case conventions. Only return the title itself.\n\nConversation:\nUser: what is a mutex\nAI: A lock.")}, "What is a mutex"},
	"LibreChat, structured": {[]string{said("user", "Analyze this conversation and provide:\n1. The detected language of the conversation\n2. A concise title in the detected language (5 words or less, no punctuation or quotation)\n\nUser: what is a mutex\nAI: A lock.")}, "What is a mutex"},
	"Continue":              {[]string{said("user", "Given the following... please reply with a title for the chat that is 3-4 words in length, all words used should be directly related.\n\nSorting a list")}, "Sorting a list"},
	"a long word":           {[]string{said("system", "You are a title generator."), said("user", strings.Repeat("あ", 80))}, strings.Repeat("あ", 50)},
	"nothing to say":        {[]string{said("system", "You are a title generator."), said("user", "\u202e \n")}, "New conversation"},
}

// TestSideCallsNeverWakeAgents: titles, tags and follow-up questions are answered by a rule, streamed or not.
func TestSideCallsNeverWakeAgents(t *testing.T) {
	t.Parallel()
	f := &fake{}
	w := newWorld(t, f, agents)
	for name, tt := range sideCalls {
		body := `{"model":"m","messages":[` + strings.Join(tt.messages, ",") + `]}`
		status, answer := w.post("/v1/chat/completions", body, "X-Session-Id", "s1")
		if c := read(t, answer); status != 200 || c.Error != nil || *c.Choices[0].Message.Content != tt.answer {
			t.Errorf("%s: %d %s", name, status, answer)
		}
		status, answer = w.post("/v1/chat/completions", strings.Replace(body, `{"model"`, `{"stream":true,"model"`, 1))
		if status != 200 || !strings.HasSuffix(answer, "data: [DONE]\n\n") {
			t.Errorf("%s, streamed: %d %s", name, status, answer)
		}
	}
	if f.starts() != 0 {
		t.Errorf("%d of them reached the agent", f.starts())
	}
}

// TestWhatIsNotASideCall: a person may use the same words, and a model without agents answers its own titles.
func TestWhatIsNotASideCall(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"a person asks for a title": `{"model":"m","messages":[` + said("user", "Please generate a title for my blog post about mutexes") + `]}`,
		"a person quotes a prompt":  `{"model":"m","messages":[` + said("user", "What does \"You are a title generator.\" mean in a system prompt?") + `]}`,
		"two messages of a user":    `{"model":"m","messages":[` + said("system", "You help.") + `,` + said("user", "one") + `,` + said("user", "two") + `]}`,
		"with tools":                `{"model":"m","tools":[` + bash + `],"messages":[` + said("system", "You are a title generator.") + `,` + said("user", "x") + `]}`,
	} {
		f := &fake{}
		w := newWorld(t, f, agents)
		if status, answer := w.post("/v1/chat/completions", body); status != 200 || f.starts() != 1 {
			t.Errorf("%s: %d %s, %d starts", name, status, answer, f.starts())
		}
	}
	f := &fake{}
	w := newWorld(t, f)
	w.post("/v1/chat/completions", `{"model":"m","messages":[`+strings.Join(sideCalls["OpenCode"].messages, ",")+`]}`)
	if f.starts() != 1 {
		t.Error("the backend without agents was not asked for its title")
	}
}

// TestSideCallsHaveNoSession: the title comes first, with the name of the session, and the conversation begins behind it all the same.
func TestSideCallsHaveNoSession(t *testing.T) {
	t.Parallel()
	f := &fake{}
	w := newWorld(t, f, agents)
	w.post("/v1/chat/completions", `{"model":"m","messages":[`+strings.Join(sideCalls["OpenCode"].messages, ",")+`]}`, "X-Session-Id", "s1")
	w.post("/v1/chat/completions", ask(false, said("user", "one")), "X-Session-Id", "s1")
	w.post("/v1/chat/completions", `{"model":"m","messages":[`+strings.Join(sideCalls["Crush"].messages, ",")+`]}`, "X-Session-Id", "s1")
	w.post("/v1/chat/completions", ask(false, said("user", "one"), said("assistant", "Hello"), said("user", "two")), "X-Session-Id", "s1")
	if f.starts() != 2 || f.started[0].Session != f.started[1].Session || f.started[1].New != 2 || f.started[1].Fork {
		t.Errorf("%+v", f.started)
	}
}

// TestSideModel: the model that the configuration names answers instead, also when a client asks for it by the door's name.
func TestSideModel(t *testing.T) {
	t.Parallel()
	agent, small := &fake{}, &fake{}
	w := newWorld(t, agent, agents, func(o *openai.Options) {
		o.Backends = append(o.Backends, openai.Backend{Name: "small", Upstream: smallModel{small}, Stateless: true})
		o.SideModel = "tiny"
	})
	for _, model := range []string{"m", openai.SideName} {
		status, answer := w.post("/v1/chat/completions", `{"model":"`+model+`","messages":[`+strings.Join(sideCalls["OpenCode"].messages, ",")+`]}`)
		if c := read(t, answer); status != 200 || *c.Choices[0].Message.Content != "Hello" {
			t.Errorf("%s: %d %s", model, status, answer)
		}
	}
	if agent.starts() != 0 || small.starts() != 2 || small.started[0].Model != "tiny" {
		t.Errorf("%d and %d starts, %+v", agent.starts(), small.starts(), small.started)
	}
}

// TestSideName: without such a model a rule answers a client that names the door's one, whatever the token lists.
func TestSideName(t *testing.T) {
	t.Parallel()
	f := &fake{}
	w := newWorld(t, f, agents)
	w.mint(openai.Token{Name: "few", Models: []string{"m"}})
	status, answer := w.post("/v1/chat/completions", `{"model":"`+openai.SideName+`","response_format":{"type":"json_object"},"messages":[`+said("user", "write the docs")+`]}`)
	var title struct{ Title string }
	if c := read(t, answer); status != 200 || json.Unmarshal([]byte(*c.Choices[0].Message.Content), &title) != nil || title.Title != "Write the docs" || f.starts() != 0 {
		t.Errorf("%d %s, %d starts", status, answer, f.starts())
	}
}
