package bridge

import (
	"cmp"
	"reflect"
)

// Owner is whom the rows of a need belong to, as far as the need says it. Where several
// fields are set, each of them says it: the root is that of the turn's agent.
type Owner struct {
	// Root is that of a tree whose rows they are.
	Root, Agent AgentID
	Turn        TurnID
	Command     CommandID
}

// OwnerOf returns whose rows a need is for, the zero Owner for rows that belong to no one
// agent or tree, and for those that a step may look at beside their owner.
func OwnerOf(need Need) Owner {
	switch n := need.(type) {
	case NeedAgent:
		return Owner{Agent: n.ID}
	case NeedTurn:
		return Owner{Turn: n.ID}
	case NeedCommand:
		return Owner{Command: n.ID}
	case NeedAwaitedFrom, NeedDeliveries, NeedLetter, NeedMember, NeedNoticedLetter, NeedOldVersions, NeedOpenSubagents,
		NeedPassageCount, NeedReaction, NeedRunMessages, NeedUnread, NeedVersions:
		return Owner{}
	}
	v := reflect.ValueOf(need)
	id := func(field string) string {
		if f := v.FieldByName(field); f.IsValid() {
			return f.String()
		}
		return ""
	}
	return Owner{AgentID(id("Root")), AgentID(cmp.Or(id("Agent"), id("Op"))), TurnID(id("Turn")), CommandID(id("Command"))}
}
