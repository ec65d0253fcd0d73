package acp

// SetMaxUpdates bounds the updates of one turn.
func (c *Conn) SetMaxUpdates(n int) { c.maxUpdates = n }
