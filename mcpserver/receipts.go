package mcpserver

import (
	"context"
	"time"

	"drawbridge/bridge"
)

type receiptArgs struct {
	Message string `json:"message_id"`
}

// ReceiptView is how far a message has come at one recipient.
type ReceiptView struct {
	AgentID string `json:"agent_id"`
	Name    string `json:"name"`
	// State is queued, offered, in_prompt or acknowledged.
	State string `json:"state"`
	// TurnID is the recipient's turn that carries it, Answer the message that
	// answered, ReadAt when a tool call fetched it.
	TurnID string    `json:"turn_id,omitempty"`
	Answer string    `json:"answer,omitempty"`
	ReadAt time.Time `json:"read_at,omitzero"`
}

// messageStatus shows the receipts of a message to its sender; whoever else asks
// is told that there is none.
func (d *Door) messageStatus(ctx context.Context, c *caller, in receiptArgs) (answer, error) {
	got, err := d.o.Mail.Receipts(ctx, c.agent.ID, bridge.MessageID(in.Message))
	views := make([]ReceiptView, len(got))
	for i, r := range got {
		views[i] = ReceiptView{AgentID: string(r.Agent), Name: r.Name, State: string(r.State), TurnID: string(r.Turn), Answer: string(r.Answer)}
		if !r.ReadAt.IsZero() {
			views[i].ReadAt = r.ReadAt.UTC()
		}
	}
	return answer{data: receiptList{in.Message, views}}, err
}
