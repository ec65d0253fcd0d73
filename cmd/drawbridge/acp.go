package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"drawbridge/internal/buildinfo"
	"drawbridge/openai/cursor"
	"drawbridge/openai/cursor/agent"
)

type acpCmd struct {
	IKnow    bool   `name:"i-know" help:"Confirm that you have read the notice in this help. Without it, the agent does not start."`
	Model    string `help:"Ask the service for this model, such as composer-2." default:"default"`
	URL      string `name:"url" help:"Exchange the API key for a token at this address." default:"https://api2.cursor.sh"`
	AgentURL string `name:"agent-url" help:"Run the model at this address. The default is --url." placeholder:"URL"`
	HTTP2    bool   `name:"http2" help:"Speak HTTP/2 with the service: one stream in both directions."`
	Share    bool   `help:"Let the service use what it reads for training."`
	Dir      string `help:"Keep sessions in this folder. The default is drawbridge/acp below XDG_STATE_HOME or ~/.local/state." placeholder:"DIR" type:"path"`
}

// keyVariable is the environment variable with the API key.
const keyVariable = "CURSOR_API_KEY"

// Help says what the agent may do, and how the relay starts it.
func (acpCmd) Help() string {
	return `The agent speaks the Agent Client Protocol with the program that started it, such as the relay. It answers through the agent protocol of Cursor's
service. The service's own tools run on this machine, in the folder of the session. The agent asks the program that started it before each tool.

Put the API key into the environment variable ` + keyVariable + `. The commands that the agent runs do not get this variable.

` + agent.Notice + `

Example:
  ` + keyVariable + `=… drawbridge acp --i-know --model composer-2
and below agents in relay.yaml:
  cursor-direct:
    kind: acp
    argv: [/usr/local/bin/drawbridge, acp, --i-know, --model, composer-2]
    env: { ` + keyVariable + `: "${file:cursor.key}" }
    permissions: { read: allow, edit: allow }
    sandbox: { read: [/usr], network: true }`
}

// Run is the agent's whole life.
func (c acpCmd) Run(ctx context.Context, a app) error {
	if !c.IKnow {
		return usageError{errors.New("this agent uses a protocol that its vendor has not published; read drawbridge acp --help, and add --i-know")}
	}
	key, _ := a.getenv(keyVariable)
	if key == "" {
		return usageError{errors.New(keyVariable + " is not set; put the API key into it")}
	}
	forget([]string{key})
	dir := c.Dir
	if dir == "" {
		state, err := stateFolder(a)
		if err != nil {
			return err
		}
		dir = filepath.Join(state, "acp")
	}
	log := zerolog.New(a.stderr).Level(zerolog.WarnLevel).With().Timestamp().Logger()
	client, err := cursor.New(cursor.Options{Name: "acp", Settings: cursor.Settings{Key: keyVariable, URL: "--url", AgentURL: "--agent-url", Model: "--model"}, URL: c.URL, AgentURL: c.AgentURL, Key: key, HTTP2: c.HTTP2, Privacy: !c.Share, Log: log})
	if err != nil {
		return usageError{err}
	}
	defer client.Close()
	return agent.Serve(ctx, agent.Options{Client: client, Model: c.Model, State: dir, Version: buildinfo.Version(), Env: os.Environ(), Log: log}, a.stdin, a.stdout)
}
