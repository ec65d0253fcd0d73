package main

import (
	"drawbridge/openai"
	"drawbridge/store/callers"
)

// openCallers opens what the OpenAI-compatible door keeps, where the configuration has that door.
func (w *parts) openCallers() {
	if w.config.OpenAI.Listen != "" {
		w.callers = &openai.Keyring{Records: callers.New(w.store)}
	}
}
