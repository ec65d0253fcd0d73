package mcpserver

import (
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"drawbridge/bridge"
)

// filesPath is where, below the door's prefix, files that were handed over are read.
const (
	filesPath = "/files/"
	filesRoot = prefix + "/files"
)

// isFiles reports whether a path is that of the files, or of one of them.
func isFiles(path string) bool {
	return strings.HasPrefix(path, prefix+filesPath) || path == filesRoot
}

// isUpload reports whether a request hands a file over, which takes a query.
func isUpload(r *http.Request) bool {
	return r.URL.EscapedPath() == filesRoot && r.Method == http.MethodPut
}

// serveFile takes an upload, or answers with a file that the caller sent or got, as bytes that no
// browser shows: an agent made them.
func (d *Door) serveFile(w http.ResponseWriter, r *http.Request, c *caller) {
	if d.o.Mail == nil {
		refuse(w, r, bridge.Errorf(bridge.NotFound, "this bridge does not take files; send the text in a message"))
		return
	}
	collection := r.URL.EscapedPath() == filesRoot
	switch {
	case isUpload(r):
		d.upload(w, r, c)
		return
	case collection:
		w.Header().Set("Allow", "PUT")
		refuse(w, r, bridge.Errorf(bridge.Invalid, "this path takes only PUT; hand over a file with PUT /mcp/files?recipient_id=ID&name=NAME, and read one with GET /mcp/files/fil_…"))
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, r, bridge.Errorf(bridge.Invalid, "this path takes only GET; read the file with GET"))
		return
	}
	content, f, err := d.o.Mail.OpenFile(r.Context(), c.agent.ID, bridge.FileID(strings.TrimPrefix(r.URL.EscapedPath(), prefix+filesPath)))
	if err != nil {
		refuse(w, r, err)
		return
	}
	defer content.Close()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", "attachment; filename*=UTF-8''"+url.PathEscape(f.Name))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.FormatInt(f.Size, 10))
	h.Set("X-Content-Sha256", f.SHA256)
	if r.Method == http.MethodHead {
		return
	}
	_, _ = io.Copy(patientWriter{w}, content) // a reader that is gone is nobody's error
}
