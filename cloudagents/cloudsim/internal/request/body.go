package request

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"drawbridge/cloudagents/cloudsim/script"
)

// MaxBody bounds a request, in bytes: five images of 15 MB in base64, and some text.
const MaxBody = 110 << 20

// Body is the JSON body of one request. The zero Body is empty, not missing: only Parse finds a body missing.
type Body struct {
	api     script.API
	root    object
	broken  error // what is wrong with the body as a whole
	problem error // the first field that is wrong
}

// Parse reads a body of at most MaxBody bytes. What is wrong with it is kept for [Body.Prompt] and [Rules.Launch], so that a
// caller can do something between reading and refusing.
func Parse(api script.API, r io.Reader) *Body {
	b := &Body{api: api}
	b.root.problem = &b.problem
	b.broken = b.parse(r)
	return b
}

func (b *Body) parse(r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return Invalid("the body could not be read, or is larger than %d bytes", MaxBody)
	}
	if len(strings.TrimSpace(string(data))) == 0 {
		return Refuse(http.StatusBadRequest, "missing_body", "Request body is required")
	}
	v, err := readJSON(data)
	switch {
	case errors.Is(err, errDuplicateKey) && b.api == script.V1:
		return Refuse(http.StatusBadRequest, "duplicate_json_key", "Request body has a %v", err)
	case err != nil && !errors.Is(err, errDuplicateKey):
		return Invalid("Request body is not valid JSON: %v", err)
	}
	fields, isObject := v.(map[string]any)
	if !isObject {
		return Invalid("Request body must be an object")
	}
	b.root.fields = fields
	return nil
}

// Repo is the first repository that a create asks for, as a path; "" when there is none or it cannot be read.
func (b *Body) Repo() string {
	var ignored error
	peek := object{fields: b.root.fields, problem: &ignored}
	raw := peek.object("source").text("repository", 0)
	if b.api == script.V1 {
		if repos := peek.objects("repos", maxRepos); len(repos) > 0 {
			raw = repos[0].text("url", 0)
		}
	}
	repo, _ := script.RepoPath(raw)
	return repo
}

// Followup is the prompt of a v0 follow-up or of a v1 run, and the remote tool
// servers that the run gets in place of the launch's; nil when it does not say.
func (b *Body) Followup() (prompt string, servers []Server, err error) {
	if b.broken != nil {
		return "", nil, b.broken
	}
	prompt = b.prompt()
	if b.api == script.V1 {
		b.root.word("mode", "agent", "plan")
		servers = readServers(b.root)
	}
	return prompt, servers, b.problem
}

// prompt reads prompt.text and looks at the images.
func (b *Body) prompt() string {
	if !b.root.has("prompt") {
		b.root.fail("prompt", "is required")
	}
	p := b.root.object("prompt")
	text := p.needText("text", 0)
	for _, img := range p.objects("images", maxImages) {
		if b.api == script.V0 {
			img.needText("data", 0)
		} else {
			checkImage(img)
		}
		if img.has("dimension") {
			d := img.object("dimension")
			d.whole("width", 1)
			d.whole("height", 1)
		}
	}
	return text
}

func checkImage(img object) {
	if img.has("data") == img.has("url") {
		img.fail("data", "or url is required, and not both")
	}
	if img.has("url") && img.has("mimeType") {
		img.fail("mimeType", "must be omitted with url")
	}
	img.link("url", 0)
	img.text("data", 0)
	if img.has("data") {
		img.needText("mimeType", 0)
		img.word("mimeType", "image/png", "image/jpeg", "image/gif", "image/webp")
	}
}
