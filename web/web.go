package web

import (
	"bytes"
	"embed"
	"errors"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/mux"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/internal/httpx"
	"drawbridge/internal/rates"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed static
var staticFiles embed.FS

// Options configures a Page. API, Watch, Records and Operators are required.
type Options struct {
	// API is what the page asks, as the person of bridge.PersonOf.
	API *api.Client
	// Watch returns a channel that gets a value after changes, and what ends it.
	Watch func() (<-chan struct{}, func())
	// Records keeps who is logged in.
	Records Records
	// Operators are who may come in. With another token, the sessions and links of an operator end.
	Operators []api.Operator
	// URL is where a proxy shows the page, "" without one. Under https:// the page is known to have TLS.
	URL string
	// Now defaults to the clock.
	Now func() time.Time
}

// Page serves the operator's page. Safe for concurrent use.
type Page struct {
	o         Options
	site      *url.URL
	templates *template.Template
	router    *mux.Router
	attempts  *rates.Limiter

	mu      sync.Mutex // guards streams
	streams map[string][]*stream
}

// New checks the options; it starts nothing.
func New(o Options) (*Page, error) {
	if o.API == nil || o.Watch == nil || o.Records == nil || len(o.Operators) == 0 {
		return nil, errors.New("the page needs an API, a watch, records and operators")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	site, err := url.Parse(o.URL)
	if err != nil {
		return nil, err
	}
	p := &Page{o: o, site: site, attempts: rates.New(maxAttempts, o.Now), streams: map[string][]*stream{}}
	if p.templates, err = template.New("").Funcs(template.FuncMap{"visible": visible, "oneLine": oneLine, "count": words.Count[int], "hash": hashOf, "needPath": needPath, "agentPath": agentPath, "mailPath": mailPath, "memoryPath": memoryPath}).ParseFS(templateFiles, "templates/*.html"); err != nil {
		return nil, err
	}
	p.router = p.routes()
	return p, nil
}

// handler serves a request of somebody who is logged in. An error becomes a page that says it.
type handler func(w http.ResponseWriter, r *http.Request, s session) error

func (p *Page) routes() *mux.Router {
	r := mux.NewRouter().SkipClean(true).UseEncodedPath()
	route := func(path string, h http.HandlerFunc, methods ...string) {
		r.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			httpx.RecordOf(r.Context()).Route = path
			h(w, r)
		}).Methods(methods...)
	}
	for _, one := range places() {
		route(one.Path, p.inside(p.see(one.Word)), http.MethodGet, http.MethodHead)
	}
	route("/needs/{key}", p.inside(p.see(placeNeeds)), http.MethodGet, http.MethodHead)
	route("/agents/{agent}/{verb:say|stop|resume}", p.inside(p.speak), http.MethodPost)
	route("/agents/{agent}/memory", p.inside(p.remember), http.MethodPost)
	route("/mail/{box}", p.inside(p.write), http.MethodPost)
	route("/rules", p.inside(p.try), http.MethodPost)
	route("/live", p.inside(p.live), http.MethodGet)
	route("/decide", p.inside(p.decide), http.MethodPost)
	route("/logout", p.inside(p.logout), http.MethodPost)
	route("/login", p.loginForm, http.MethodGet, http.MethodHead)
	route("/login", p.login, http.MethodPost)
	route("/static/{file}", p.static, http.MethodGet, http.MethodHead)
	r.MethodNotAllowedHandler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p.show(w, http.StatusMethodNotAllowed, "error.html", errorPage{"this address does not accept this HTTP method"})
	})
	return r
}

// Serves reports whether a request is for the page, under any method.
func (p *Page) Serves(r *http.Request) bool {
	var match mux.RouteMatch
	return httpx.PlainPath(r.URL) && p.router.Match(r, &match)
}

// policy is the Content-Security-Policy: nothing from elsewhere, nothing inline, and no frame around the page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP implements http.Handler.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer a browser hides its Origin from us, too
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	p.router.ServeHTTP(w, r)
}

// static serves the stylesheet, the script and the icon. They hold nothing secret.
func (p *Page) static(w http.ResponseWriter, r *http.Request) {
	files, _ := fs.Sub(staticFiles, "static")
	w.Header().Set("Cache-Control", "no-cache")
	http.ServeFileFS(w, r, files, mux.Vars(r)["file"])
}

// inside lets those in who are logged in. Every change needs the session's own word besides the cookie, and a browser that says that the
// form was on this page.
func (p *Page) inside(next handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s, err := p.session(r)
		switch {
		case err != nil:
			p.fail(w, r, err)
			return
		case s.key == "":
			p.loginForm(w, r)
			return
		}
		httpx.RecordOf(r.Context()).Add("operator", s.person.Name)
		r = r.WithContext(bridge.ByPerson(r.Context(), s.person))
		if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
			// Another site brought the person here, perhaps in the middle of a click. The page's buttons come after a click of their own.
			p.show(w, http.StatusOK, "elsewhere.html", r.URL.EscapedPath())
			return
		}
		if r.Method == http.MethodPost {
			if err := p.ours(w, r, s); err != nil {
				p.fail(w, r, err)
				return
			}
		}
		if err := next(w, r, s); err != nil {
			p.fail(w, r, err)
		}
	}
}

// maxForm bounds a form, in bytes.
const maxForm = 1 << 20

// ours refuses a form that another site sent, or that has not the session's own word.
func (p *Page) ours(w http.ResponseWriter, r *http.Request, s session) error {
	if err := readForm(w, r); err != nil {
		return err
	}
	if !s.owns(r.PostForm.Get("csrf")) {
		return bridge.Errorf(bridge.Denied, "this form is too old; load the page again")
	}
	return nil
}

// readForm reads a form that was sent from this page.
func readForm(w http.ResponseWriter, r *http.Request) error {
	// The guard in front has refused another Origin or Sec-Fetch-Site. A browser sends one of both with each form.
	if r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") != "same-origin" {
		return bridge.Errorf(bridge.Denied, "the request does not say from which site it comes; use a current browser, or the API")
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return bridge.Errorf(bridge.Invalid, "the form cannot be read; load the page again")
	}
	return nil
}

// formText is a text of several lines that a form brought.
func formText(f url.Values, name string) string {
	return strings.ReplaceAll(f.Get(name), "\r\n", "\n")
}

// fail answers with a page that says what went wrong.
func (p *Page) fail(w http.ResponseWriter, r *http.Request, err error) {
	httpx.RecordOf(r.Context()).Err = err
	p.show(w, api.StatusOf(err), "error.html", errorPage{bridge.SafeMessage(err)})
}

// errorPage is the model of error.html.
type errorPage struct{ Message string }

// show renders a template whole before the first byte leaves. A template that fails is a bug: httpx.Recover answers and logs it.
func (p *Page) show(w http.ResponseWriter, status int, name string, model any) {
	text, err := p.render(name, model)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}

func (p *Page) render(name string, model any) (string, error) {
	var b bytes.Buffer
	err := p.templates.ExecuteTemplate(&b, name, model)
	return strings.TrimSpace(b.String()), err
}

// fragment is what a template made, for another template.
func (p *Page) fragment(name string, model any) (template.HTML, error) {
	text, err := p.render(name, model)
	return template.HTML(text), err //nolint:gosec // html/template has escaped it
}
