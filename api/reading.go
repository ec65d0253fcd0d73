package api

import (
	"drawbridge/parser"
	"drawbridge/policy"
)

// Reading is what the bridge reads in a text, and what the gate says to it. It is also the contract of drawbridge parse --json.
type Reading struct {
	Commands   []ReadCommand `json:"commands"`
	NearMisses []ReadMiss    `json:"near_misses"`
	// OverCap is there when the turn is over a cap; then nothing of it would run.
	OverCap string `json:"over_cap,omitempty"`
}

// ReadCommand is a command with the fields of its verb. Verdict and what follows are there when the gate was asked.
type ReadCommand struct {
	Line    int     `json:"line"`
	Verb    string  `json:"verb"`
	Repo    *string `json:"repo,omitempty"`
	Prompt  *string `json:"prompt,omitempty"`
	Action  *string `json:"action,omitempty"`
	When    *string `json:"when,omitempty"`
	Message *string `json:"message,omitempty"`
	AgentID *string `json:"agent_id,omitempty"`
	Status  *string `json:"status,omitempty"`
	// Verdict is granted, held, refused or noted, and Reason says why it is not granted.
	Verdict   *string `json:"verdict,omitempty"`
	Reason    *string `json:"reason,omitempty"`
	Canonical *string `json:"canonical,omitempty"`
	// Code is a stable word for Reason. Rule is what allows the command, as it stands on the allowlist.
	Code string `json:"code,omitempty"`
	Rule string `json:"rule,omitempty"`
}

// ReadMiss is a line that looks like a command and is none.
type ReadMiss struct {
	Line   int    `json:"line"`
	Text   string `json:"text"`
	Reason string `json:"reason"`
	Code   string `json:"code"`
}

// ReadingOf tells of commands and near misses. judged is the gate's answer to the commands, nil when it was not asked.
func ReadingOf(commands []parser.Command, misses []parser.NearMiss, judged *policy.Judgement) Reading {
	out := Reading{Commands: viewAll(commands, readCommand), NearMisses: viewAll(misses, func(n parser.NearMiss) ReadMiss {
		return ReadMiss{Line: n.Line, Text: n.Text, Reason: n.Reason, Code: n.Code}
	})}
	if judged == nil {
		return out
	}
	out.OverCap = judged.OverCap
	for i, v := range judged.Verdicts {
		c, decision := &out.Commands[i], string(v.Decision)
		c.Verdict, c.Reason, c.Canonical, c.Code, c.Rule = &decision, &v.Reason, &v.Canonical, string(v.Code), v.Rule
	}
	return out
}

func readCommand(c parser.Command) ReadCommand {
	row := ReadCommand{Line: c.Line, Verb: string(c.Verb)}
	switch c.Verb {
	case parser.Subagent:
		row.Repo, row.Prompt = &c.Repo, &c.Prompt
	case parser.LocalAction:
		row.Action = &c.Action
	case parser.Remind:
		row.When, row.Message = &c.When, &c.Message
	case parser.WebhookResult:
		row.AgentID, row.Status = &c.AgentID, &c.Status
	}
	return row
}
