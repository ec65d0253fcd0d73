// Package service writes the file by which a user's own service manager keeps a relay running: a systemd user unit on
// Linux, a launchd agent on macOS.
//
// It starts nothing and asks for no rights: the next command is the user's to type. Rule of thumb: what a unit says is what
// the relay could not do for itself.
package service

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"drawbridge/internal/trust"
)

// Kinds of service managers.
const (
	Systemd = "systemd"
	Launchd = "launchd"
)

// File is a service file that is not written yet.
type File struct {
	Path, Text string
	// Next is what the user types after it was written.
	Next string
}

// Options is what a file is made from: absolute paths of the relay's binary, of relay.yaml and of the user's home.
type Options struct {
	Kind, Program, Config, Home string
}

// For makes the file for one relay. The error says which path cannot stand in it.
func For(o Options) (File, error) {
	for _, path := range []string{o.Program, o.Config, o.Home} {
		if !filepath.IsAbs(path) || strings.ContainsAny(path, "\x00\n\r") {
			return File{}, trust.Because(fmt.Sprintf("a service file cannot contain the path %q", path), "use absolute paths without line breaks")
		}
	}
	switch o.Kind {
	case Systemd:
		return unit(o), nil
	case Launchd:
		return agent(o), nil
	default:
		return File{}, trust.Because("this machine has no service manager that drawbridge-relay knows", "arrange in another way that drawbridge-relay run starts")
	}
}

// unitText lets systemd make a subgroup for the relay itself, so that the relay may bound the number of processes of each
// action (older systemd ignores DelegateSubgroup; then the relay counts by itself). KillMode leaves the end of the actions to
// the relay, which records it.
const unitText = `[Unit]
Description=Drawbridge relay: runs the actions of %[2]s
After=network-online.target

[Service]
ExecStart=%[1]s run --config %[3]s
Restart=on-failure
RestartSec=5
Delegate=pids
DelegateSubgroup=relay
KillMode=mixed
TimeoutStopSec=45
UMask=0077
LimitCORE=0

[Install]
WantedBy=default.target
`

func unit(o Options) File {
	return File{
		Path: filepath.Join(o.Home, ".config/systemd/user/drawbridge-relay.service"),
		Text: fmt.Sprintf(unitText, quoted(o.Program), quoted(o.Config), strings.ReplaceAll(quoted(o.Config), "$", "$$")),
		Next: "systemctl --user daemon-reload && systemctl --user enable --now drawbridge-relay",
	}
}

// quoted is a path in the quoting of systemd, in which % means something. So does $, but only in the arguments of a program.
func quoted(path string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`).Replace(path) + `"`
}

const agentText = `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key><string>drawbridge.relay</string>
  <key>ProgramArguments</key>
  <array><string>%s</string><string>run</string><string>--config</string><string>%s</string></array>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
  <key>ExitTimeOut</key><integer>45</integer>
  <key>Umask</key><integer>63</integer>
  <key>StandardErrorPath</key><string>%s</string>
</dict>
</plist>
`

func agent(o Options) File {
	path := filepath.Join(o.Home, "Library/LaunchAgents/drawbridge.relay.plist")
	return File{
		Path: path,
		Text: fmt.Sprintf(agentText, escaped(o.Program), escaped(o.Config), escaped(filepath.Join(o.Home, "Library/Logs/drawbridge-relay.log"))),
		Next: "launchctl bootstrap gui/$(id -u) " + shellQuoted(path),
	}
}

func escaped(path string) string {
	var b strings.Builder
	// A Builder takes everything.
	_ = xml.EscapeText(&b, []byte(path))
	return b.String()
}

func shellQuoted(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }

// Write writes the file (mode 0600) with its folders. It does not replace another file: that is the user's to remove.
func (f File) Write() error {
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return fmt.Errorf("write service file: %w", err)
	}
	old, err := os.ReadFile(f.Path)
	switch {
	case err == nil && string(old) == f.Text:
		return nil
	case err == nil:
		return trust.Because(f.Path+" exists already with other content", "compare it with the output of drawbridge-relay install --print; to replace it, remove it first")
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("write service file: %w", err)
	}
	if err := os.WriteFile(f.Path, []byte(f.Text), 0o600); err != nil {
		return fmt.Errorf("write service file: %w", err)
	}
	return nil
}
