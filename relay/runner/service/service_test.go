package service_test

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drawbridge/relay/runner/service"
)

func TestUnit(t *testing.T) {
	t.Parallel()
	file, err := service.For(service.Options{Kind: service.Systemd, Program: `/opt/$my "tools"/relay`, Config: "/home/me/50%/$x/relay.yaml", Home: "/home/me"})
	if err != nil {
		t.Fatal(err)
	}
	if want := `ExecStart="/opt/$my \"tools\"/relay" run --config "/home/me/50%%/$$x/relay.yaml"`; !strings.Contains(file.Text, want+"\n") {
		t.Errorf("no line %s in\n%s", want, file.Text)
	}
	if file.Path != "/home/me/.config/systemd/user/drawbridge-relay.service" {
		t.Error(file.Path)
	}
}

func TestAgent(t *testing.T) {
	t.Parallel()
	file, err := service.For(service.Options{Kind: service.Launchd, Program: "/opt/a&b/relay", Config: "/Users/me/<x>/relay.yaml", Home: "/Users/o'me"})
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for decoder := xml.NewDecoder(strings.NewReader(file.Text)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := token.(xml.CharData); ok && strings.TrimSpace(string(text)) != "" {
			words = append(words, string(text))
		}
	}
	if got := strings.Join(words, "|"); !strings.Contains(got, "|ProgramArguments|/opt/a&b/relay|run|--config|/Users/me/<x>/relay.yaml|") {
		t.Errorf("the agent reads %s", got)
	}
	if !strings.Contains(file.Next, `'/Users/o'\''me/Library/LaunchAgents/drawbridge.relay.plist'`) {
		t.Error(file.Next)
	}
}

func TestNoFile(t *testing.T) {
	t.Parallel()
	for _, o := range []service.Options{
		{Kind: service.Systemd, Program: "relay", Config: "/a", Home: "/b"},
		{Kind: service.Systemd, Program: "/relay", Config: "/a\nExecStart=/bin/sh", Home: "/b"},
		{Kind: "init", Program: "/relay", Config: "/a", Home: "/b"},
	} {
		if file, err := service.For(o); err == nil {
			t.Errorf("%+v gave %s", o, file.Text)
		}
	}
}

func TestWriteReplacesNothing(t *testing.T) {
	t.Parallel()
	file := service.File{Path: filepath.Join(t.TempDir(), "a/b/unit"), Text: "one"}
	for range 2 {
		if err := file.Write(); err != nil {
			t.Fatal(err)
		}
	}
	other := service.File{Path: file.Path, Text: "two"}
	if err := other.Write(); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("%v", err)
	}
	if text, err := os.ReadFile(file.Path); err != nil || string(text) != "one" {
		t.Errorf("%q, %v", text, err)
	}
}
