package acp

import (
	"encoding/json"
	"math"

	"drawbridge/internal/loosejson"
	"drawbridge/relay/wire"
)

// spending is what an agent says of the cost and the model of a session. It only informs.
type spending struct {
	model string
	// cost is what the session has cost so far, in millionths of a US dollar; nil until the agent says it.
	cost *int64
	// counted sums the tokens that came with the messages of the turn that runs, nil without any.
	counted *wire.Tokens
}

// opens reads the model of a session that an agent opened.
func (s *spending) opens(o opened) {
	models, _ := loosejson.Object(o.Models)
	s.use(loosejson.Text(models["currentModelId"]))
	for _, option := range o.ConfigOptions {
		if option.Category == modelOption {
			s.use(loosejson.Text(option.CurrentValue))
		}
	}
}

// use notes the model, unless the agent does not name it.
func (s *spending) use(model string) {
	if model != "" {
		s.model = model
	}
}

// modelOption is the category of the option that holds the model of a session.
const modelOption = "model"

// hears reads an update of the session.
func (s *spending) hears(kind string, params json.RawMessage) {
	var n struct {
		Update struct {
			Cost    json.RawMessage                      `json:"cost"`
			Options loosejson.Value[[]configOption]      `json:"configOptions"`
			Meta    map[string]loosejson.Value[tokensOf] `json:"_meta"`
		} `json:"update"`
	}
	switch kind {
	case usageUpdate:
		_ = json.Unmarshal(params, &n)
		cost, _ := loosejson.Object(n.Update.Cost)
		var amount float64
		if loosejson.Text(cost["currency"]) == "USD" && json.Unmarshal(cost["amount"], &amount) == nil && amount >= 0 {
			micros := int64(math.Round(min(amount, maxCost) * 1e6))
			s.cost = &micros
		}
	case optionUpdate:
		_ = json.Unmarshal(params, &n)
		s.opens(opened{ConfigOptions: n.Update.Options.Is})
	case agentChunk: // Qwen Code counts each request to its model in the update that follows it
		_ = json.Unmarshal(params, &n)
		if said := n.Update.Meta["usage"].Is.tokens(); said != nil {
			if s.counted == nil {
				s.counted = &wire.Tokens{}
			}
			s.counted.Input, s.counted.Output, s.counted.CacheRead = s.counted.Input+said.Input, s.counted.Output+said.Output, s.counted.CacheRead+said.CacheRead
		}
	}
}

// maxCost bounds the cost of a session, in US dollars.
const maxCost = 1e6

// Updates that tell what a session takes. The library does not know the second.
const (
	usageUpdate  = "usage_update"
	optionUpdate = "config_option_update"
)

// tokensOf counts tokens as the protocol names them.
type tokensOf struct {
	Input  json.RawMessage `json:"inputTokens"`
	Output json.RawMessage `json:"outputTokens"`
	Read   json.RawMessage `json:"cachedReadTokens"`
	Write  json.RawMessage `json:"cachedWriteTokens"`
}

// tokens is nil where the agent does not say input and output in numbers.
func (t tokensOf) tokens() *wire.Tokens {
	in, out := loosejson.Number(t.Input), loosejson.Number(t.Output)
	if in == nil || out == nil {
		return nil
	}
	return &wire.Tokens{Input: *in, Output: *out, CacheRead: numberOr0(t.Read), CacheWrite: numberOr0(t.Write)}
}

func numberOr0(raw json.RawMessage) int64 {
	if n := loosejson.Number(raw); n != nil {
		return *n
	}
	return 0
}

// tokens reads what a turn took from the answer to its prompt. The protocol leaves open whether that is the turn or the session; the agents in
// proof/wires count the turn. Gemini CLI counts it under a name of its own.
func (p prompted) tokens() *wire.Tokens {
	var said tokensOf
	if json.Unmarshal(p.Usage, &said) == nil {
		if all := said.tokens(); all != nil {
			return all
		}
	}
	meta, _ := loosejson.Object(p.Meta)
	quota, _ := loosejson.Object(meta["quota"])
	count, _ := loosejson.Object(quota["token_count"])
	return tokensOf{Input: count["input_tokens"], Output: count["output_tokens"]}.tokens()
}

// took is what a turn took, and total what the session took so far, which agents say of its cost alone.
func (s spending) took(said prompted) (turn, total *wire.Spent) {
	spent := wire.Spent{Tokens: said.tokens(), Model: s.model}
	if spent.Tokens == nil {
		spent.Tokens = s.counted
	}
	return spent.Known(), wire.Spent{CostMicros: s.cost}.Known()
}
