package office

import (
	"net/http"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
	"drawbridge/mail"
)

// edit changes what a message says, whoever wrote it.
func (h *Handler) edit(w http.ResponseWriter, r *http.Request) error {
	var req EditRequest
	if err := h.use.Body(w, r, &req); err != nil {
		return err
	}
	return h.rewritten(w, r, func(id bridge.MessageID) (bridge.Message, error) {
		return h.mail.Edit(r.Context(), bridge.User, id, req.Text)
	})
}

// withdraw takes a message's text away, whoever wrote it.
func (h *Handler) withdraw(w http.ResponseWriter, r *http.Request) error {
	return h.rewritten(w, r, func(id bridge.MessageID) (bridge.Message, error) {
		return h.mail.Delete(r.Context(), bridge.User, id)
	})
}

func (h *Handler) rewritten(w http.ResponseWriter, r *http.Request, change func(bridge.MessageID) (bridge.Message, error)) error {
	id, err := h.use.Path(r, "id")
	if err != nil {
		return err
	}
	m, err := change(bridge.MessageID(id))
	if err != nil {
		return err
	}
	httpx.RecordOf(r.Context()).Add("message", id)
	httpx.WriteJSON(w, http.StatusOK, viewMessage(mail.Peeked{Message: m}))
	return nil
}

// react puts the operator's emoji on a message or takes it away. Twice is fine.
func (h *Handler) react(w http.ResponseWriter, r *http.Request) error {
	var req ReactionRequest
	if err := h.use.Body(w, r, &req); err != nil {
		return err
	}
	id, err := h.use.Path(r, "id")
	if err != nil {
		return err
	}
	change := h.mail.React
	if req.Remove {
		change = h.mail.Unreact
	}
	changed, err := change(r.Context(), bridge.User, bridge.MessageID(id), req.Emoji)
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, Changed{Changed: changed})
	return nil
}

// read notes that the operator read what agents wrote to it.
func (h *Handler) read(w http.ResponseWriter, r *http.Request) error {
	var req ReadRequest
	if err := h.use.Body(w, r, &req); err != nil {
		return err
	}
	ids := make([]bridge.MessageID, len(req.Messages))
	for i, id := range req.Messages {
		ids[i] = bridge.MessageID(id)
	}
	news, err := h.mail.Acknowledge(r.Context(), ids...)
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, ReadAnswer{Read: news})
	return nil
}

// DeletedFile names a file that is no more.
type DeletedFile struct {
	Deleted string `json:"deleted"`
}

// deleteFile takes the copy of a file away, and its name from its message.
func (h *Handler) deleteFile(w http.ResponseWriter, r *http.Request) error {
	id, err := h.use.Path(r, "id")
	if err != nil {
		return err
	}
	if err := h.mail.DeleteFile(r.Context(), bridge.FileID(id)); err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, DeletedFile{Deleted: id})
	return nil
}
