package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"drawbridge/cmd/drawbridge/internal/local"
	"drawbridge/config"
	"drawbridge/internal/httpx"
)

// callersDoor is where the OpenAI-compatible endpoint of a new bridge listens.
const callersDoor = "127.0.0.1:18741"

// endpointKey is the environment variable with the key of an endpoint that is not on this machine.
const endpointKey = "OPENAI_API_KEY"

const openAIBlock = `
# Programs that use OpenAI's API connect to http://%s/v1. They can use the models of your endpoint.
# They can also use each agent of this bridge as a model, by the name agent/NAME.
openai:
  listen: %[1]s
  upstreams:
    models: { kind: chat, url: %[2]q%[3]s }
    agents: { kind: agent }
`

const openAINext = `
For programs that use OpenAI's API, in %[1]s:
  1. drawbridge serve                            the bridge; it keeps this terminal
  2. drawbridge token --openai NAME --model '*'  in another terminal: prints a token for one program
  3. give the program the address http://%[2]s/v1, the token, and a model
`

// addOpenAI writes the OpenAI-compatible endpoint into bridge.yaml, in front of a model endpoint at an address.
func (c initCmd) addOpenAI(a app) error {
	if c.Openai == "" {
		return nil
	}
	path := filepath.Join(c.Dir, "bridge.yaml")
	getenv := func(name string) (string, bool) {
		value, set := a.getenv(name)
		return cmp.Or(value, strings.Repeat("not-set-yet-", 4)), set || value == "" // serve asks for what is missing
	}
	load := func(path string) (*config.Bridge, error) {
		cfg, problems := config.Load(path, getenv)
		if cfg == nil {
			return nil, errors.New(problems[0].String())
		}
		return cfg, nil
	}
	cfg, err := load(path)
	if err != nil {
		return err
	}
	listen := cfg.OpenAI.Listen
	if listen == "" {
		listen = freeAddress(callersDoor)
		key, remote := "", !loopbackURL(c.Openai)
		if remote {
			key = fmt.Sprintf(`, key: "${%s}"`, endpointKey)
		}
		err := local.Edit(path, func(text []byte) ([]byte, error) {
			return append(text, fmt.Sprintf(openAIBlock, listen, c.Openai, key)...), nil
		}, func(trial string) error { _, err := load(trial); return err })
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "openai  %s has the endpoint for OpenAI clients now\n", shown(path))
		if value, _ := a.getenv(endpointKey); remote && value == "" {
			fmt.Fprintf(a.stdout, "note    put the key of the endpoint into the environment before drawbridge serve: export %s=…\n", endpointKey)
		}
	} else if !serves(cfg, c.Openai) {
		return usageError{fmt.Errorf("%s has an openai: block without %s; add this below its upstreams: NAME: { kind: chat, url: %q }", path, c.Openai, c.Openai)}
	}
	_, err = fmt.Fprintf(a.stdout, openAINext, shown(c.Dir), listen)
	return err
}

// serves reports whether an upstream of a bridge is at an address.
func serves(cfg *config.Bridge, address string) bool {
	for _, u := range cfg.OpenAI.Upstreams {
		if u.URL == address {
			return true
		}
	}
	return false
}

func loopbackURL(address string) bool {
	u, err := url.Parse(address)
	return err == nil && httpx.Loopback(u.Hostname())
}
