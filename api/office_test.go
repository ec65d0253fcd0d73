package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drawbridge/api"
	"drawbridge/api/office"
	"drawbridge/bridge"
	"drawbridge/mail"
)

// newMailWorld is a world with a post office; its agents' workspace is a folder of the test.
func newMailWorld(t *testing.T) (*world, *mail.Service, string) {
	t.Helper()
	var post *mail.Service
	workspace := t.TempDir()
	w := newWorld(t, func(o *api.Options) {
		var err error
		post, err = mail.New(mail.Options{Steps: o.Engine, Files: filepath.Join(t.TempDir(), "files"), Workspace: func(bridge.Agent) string { return workspace }})
		if err != nil {
			t.Fatal(err)
		}
		o.Mail = post
	})
	return w, post, workspace
}

func (w *world) launchNamed(t *testing.T, name string) string {
	t.Helper()
	l, err := w.client.Launch(t.Context(), api.LaunchRequest{Name: name, Repo: chatRepo, Prompt: "hello"})
	if err != nil {
		t.Fatal(err)
	}
	return l.Agent.ID
}

func TestOffice(t *testing.T) {
	t.Parallel()
	w, post, workspace := newMailWorld(t)
	ctx := t.Context()
	ann, bob := w.launchNamed(t, "ann"), w.launchNamed(t, "bob")
	c, err := w.client.CreateChannel(ctx, office.ChannelRequest{Name: "general", Members: []string{"ann", bob}})
	if err != nil || len(c.Members) != 2 || c.Members[1].ID != bob || c.Status != "active" {
		t.Fatalf("channel: %+v, %v", c, err)
	}
	for range 3 {
		if _, err := post.PostChannel(ctx, bridge.AgentID(ann), c.ID, "a \u202eword"); err != nil {
			t.Fatal(err)
		}
	}
	list, err := w.client.ChannelMessages(ctx, "general", api.ListOptions{Limit: 2})
	if err != nil || len(list.Messages) != 2 || list.Next == "" || list.Messages[0].FromName != "ann" || len(list.Messages[0].Receipts) != 1 {
		t.Fatalf("messages: %+v, %v", list, err)
	}
	if rest, err := w.client.ChannelMessages(ctx, "general", api.ListOptions{Limit: 2, Before: list.Next}); err != nil || len(rest.Messages) != 1 || rest.Next != "" {
		t.Errorf("the rest: %+v, %v", rest, err)
	}
	if mail, err := w.client.Mail(ctx, "bob", api.ListOptions{}); err != nil || len(mail.Messages) != 3 || mail.Messages[0].Receipts[0].Agent != bob {
		t.Errorf("bob's mail: %+v, %v", mail, err)
	}
	if posted, err := w.client.Post(ctx, "general", "hello"); err != nil || posted.Recipients != 2 || posted.Woken != 2 || posted.Message.From != "USER" {
		t.Errorf("posted: %+v, %v", posted, err)
	}
	if channels, err := w.client.Channels(ctx, "channel", api.ListOptions{}); err != nil || len(channels.Channels) != 1 {
		t.Errorf("channels: %+v, %v", channels, err)
	}
	if none, err := w.client.Channels(ctx, "thread", api.ListOptions{}); err != nil || none.Channels == nil || len(none.Channels) != 0 {
		t.Errorf("threads: %+v, %v", none, err)
	}
	if c, err := w.client.ChannelMembers(ctx, "general", office.MembersRequest{Remove: []string{"bob"}}); err != nil || len(c.Members) != 1 {
		t.Errorf("members: %+v, %v", c, err)
	}
	if err := os.WriteFile(filepath.Join(workspace, "page.html"), []byte("<script>"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.ChannelMembers(ctx, "general", office.MembersRequest{Add: []string{"bob"}}); err != nil {
		t.Fatal(err)
	}
	f, _, err := post.Transfer(context.WithoutCancel(ctx), bridge.AgentID(ann), mail.FileDraft{To: "bob", Source: "page.html", Name: "ü \"x\".html"})
	if err != nil {
		t.Fatal(err)
	}
	status, body, header := w.call(t, http.MethodGet, "/v1/files/"+string(f.ID), "")
	if status != http.StatusOK || body != "<script>" || header.Get("Content-Type") != "application/octet-stream" || !strings.HasPrefix(header.Get("Content-Disposition"), "attachment") {
		t.Errorf("the file: %d %q %v", status, body, header)
	}
}

func TestOfficeRefuses(t *testing.T) {
	t.Parallel()
	w, _, _ := newMailWorld(t)
	w.launchNamed(t, "ann")
	if _, err := w.client.CreateChannel(t.Context(), office.ChannelRequest{Name: "general"}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		method, path, body string
		status             int
	}{
		{http.MethodPost, "/v1/channels", `{"name":"a b"}`, http.StatusBadRequest},
		{http.MethodPost, "/v1/channels", `{"name":"x","member":["ann"]}`, http.StatusBadRequest},
		{http.MethodPost, "/v1/channels", `{"name":"general"}`, http.StatusConflict},
		{http.MethodPost, "/v1/channels/general/members", `{}`, http.StatusBadRequest},
		{http.MethodPost, "/v1/channels/general/members", `{"add":["ann"],"remove":["ann"]}`, http.StatusBadRequest},
		{http.MethodPost, "/v1/channels/none/members", `{"add":["ann"]}`, http.StatusNotFound},
		{http.MethodPost, "/v1/channels/general/status", `{"status":"open"}`, http.StatusBadRequest},
		{http.MethodPost, "/v1/channels/general/messages", `{"text":"hello"}`, http.StatusConflict},
		{http.MethodPost, "/v1/channels/ann/messages", `{"text":" "}`, http.StatusBadRequest},
		{http.MethodGet, "/v1/channels?kind=mailbox", "", http.StatusBadRequest},
		{http.MethodGet, "/v1/channels/none/messages", "", http.StatusNotFound},
		{http.MethodGet, "/v1/channels/general/messages?before=msg_none", "", http.StatusNotFound},
		{http.MethodGet, "/v1/agents/nobody/mail", "", http.StatusNotFound},
		{http.MethodGet, "/v1/agents/ann/mail?state=read", "", http.StatusBadRequest},
		{http.MethodGet, "/v1/files/..%2F..%2Fetc%2Fpasswd", "", http.StatusNotFound},
	} {
		status, body, _ := w.call(t, tt.method, tt.path, tt.body)
		var answer struct{ Error any }
		if err := json.Unmarshal([]byte(body), &answer); status != tt.status || err != nil || answer.Error == nil {
			t.Errorf("%s %s %s: %d %s, want %d", tt.method, tt.path, tt.body, status, body, tt.status)
		}
	}
	// Every route wants the token, these too.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/v1/agents/ann/mail", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without the token: %d, %v", resp.StatusCode, err)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}
