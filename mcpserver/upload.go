package mcpserver

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
	"drawbridge/mail"
)

// content is the file that a call holds itself; nil when it holds none.
func (in transferArgs) content() (io.Reader, error) {
	switch {
	case in.Content != nil && in.Base64 != nil:
		return nil, bridge.Errorf(bridge.Invalid, "content and content_base64 are both given; give one of them")
	case in.Content != nil:
		return strings.NewReader(*in.Content), nil
	case in.Base64 != nil:
		if _, err := base64.StdEncoding.DecodeString(*in.Base64); err != nil {
			return nil, bridge.Errorf(bridge.Invalid, "content_base64 is not valid; encode the file's bytes as base64 with padding (RFC 4648, section 4)")
		}
		return base64.NewDecoder(base64.StdEncoding, strings.NewReader(*in.Base64)), nil
	}
	return nil, nil
}

// fromMachine reads the file in the workspace of a caller on a person's machine.
func (d *Door) fromMachine(ctx context.Context, c *caller, path string) (io.Reader, error) {
	if path == "" {
		return nil, bridge.Errorf(bridge.Invalid, "source_path is empty; name a file in your workspace")
	}
	data, err := d.o.Machines.File(ctx, c.agent, path)
	if err != nil {
		return nil, err
	}
	return bytes.NewReader(data), nil
}

func viewFile(f bridge.File, m bridge.Message) fileData {
	return fileData{ID: string(f.ID), Name: f.Name, Path: mail.FilePath(f.ID), Size: f.Size, SHA256: f.SHA256, MessageID: string(m.ID)}
}

// uploadPatience is how long the bytes of one upload may take.
const uploadPatience = 10 * time.Minute

// upload takes PUT /mcp/files?recipient_id=ID&name=NAME&description=TEXT: the body is the file. It does what transfer_file does,
// for files that are too large for a call.
func (d *Door) upload(w http.ResponseWriter, r *http.Request, c *caller) {
	q, err := httpx.ReadQuery(r, "recipient_id", "name", "description")
	if err != nil {
		refuse(w, r, bridge.Errorf(bridge.Invalid, "%s", err))
		return
	}
	if q.Get("recipient_id") == "" || q.Get("name") == "" {
		refuse(w, r, bridge.Errorf(bridge.Invalid, "recipient_id and name are required; upload with PUT /mcp/files?recipient_id=ID&name=NAME"))
		return
	}
	httpx.Linger(w, uploadPatience)
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(uploadPatience)) // the server's own is for short requests
	body := &sentBody{Reader: r.Body}
	f, m, err := d.o.Mail.Transfer(r.Context(), c.agent.ID, mail.FileDraft{To: q.Get("recipient_id"), Source: q.Get("name"), Content: body, Arriving: true, Name: q.Get("name"), Description: q.Get("description")})
	if err != nil && body.err != nil {
		err = &bridge.Error{Kind: bridge.Invalid, Message: "the file did not arrive whole, so nothing was handed over; send it again", Cause: err}
	}
	if err != nil {
		refuse(w, r, err)
		return
	}
	httpx.WriteJSON(w, http.StatusCreated, viewFile(f, m))
}

// sentBody remembers that the client's bytes ended with an error, which is not ours.
type sentBody struct {
	io.Reader
	err error
}

// Read implements io.Reader.
func (b *sentBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // the contract of io.Reader
		b.err = err
	}
	return n, err
}
