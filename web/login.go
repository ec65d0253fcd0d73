package web

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/internal/httpx"
)

// The bounds of a login.
const (
	// LinkLife is how long a one-time link can be used, SessionLife how long a login lasts.
	LinkLife    = 10 * time.Minute
	SessionLife = 14 * 24 * time.Hour
	// maxAttempts bounds the wrong codes that one address may try in a minute.
	maxAttempts = 10
)

// Pass is a one-time link or a session. Its secret is kept nowhere.
type Pass struct {
	// Hash is an HMAC of the secret, of the operator's name, and of whether it is a link or a session, with the operator's token as its key.
	Hash           string
	MadeAt, EndsAt time.Time
}

// Records keeps passes. Its methods are safe for concurrent use.
type Records interface {
	// AddPass keeps a pass, and forgets those that ended before MadeAt.
	AddPass(ctx context.Context, p Pass) error
	// FindPass returns the pass of a hash, and false when there is none.
	FindPass(ctx context.Context, hash string) (Pass, bool, error)
	// TakePass forgets the pass of a hash. Of several calls at once, one at most returns true.
	TakePass(ctx context.Context, hash string) (Pass, bool, error)
}

// session is who asks; the zero session is nobody.
type session struct {
	// key is what the browser's cookie holds.
	key    string
	person bridge.Person
}

// word is what a form of the session has to say.
func (s session) word() string {
	sum := sha256.Sum256([]byte("form|" + s.key))
	return hex.EncodeToString(sum[:])
}

func (s session) owns(word string) bool {
	return subtle.ConstantTimeCompare([]byte(word), []byte(s.word())) == 1
}

// key is what opens something for an operator: the operator's name and a secret, with a dot between them. hash is the name under which it is
// recorded; ok is false for what cannot be a key. The secret has 260 random bits, so that it needs no slow hash.
func (p *Page) hash(kind, key string) (hash string, o api.Operator, ok bool) {
	dot := strings.LastIndexByte(key, '.')
	if dot < 0 || len(key)-dot-1 != secretLength {
		return "", o, false
	}
	at := slices.IndexFunc(p.o.Operators, func(o api.Operator) bool { return o.Name == key[:dot] })
	if at < 0 {
		return "", o, false
	}
	o = p.o.Operators[at]
	h := hmac.New(sha256.New, []byte(o.Token))
	h.Write([]byte("page|" + kind + "|" + key))
	return hex.EncodeToString(h.Sum(nil)), o, true
}

func newKey(name string) string { return name + "." + strings.ToLower(rand.Text()+rand.Text()) }

// secretLength is that of the secret in a key.
const secretLength = 52

const (
	kindLink    = "link"
	kindSession = "session"
)

// add makes a pass of an operator that ends after life, and returns its key.
func (p *Page) add(ctx context.Context, kind, name string, life time.Duration) (key string, ends time.Time, err error) {
	now := p.o.Now()
	key, ends = newKey(name), now.Add(life)
	hash, _, ok := p.hash(kind, key)
	if !ok {
		return "", ends, bridge.Errorf(bridge.NotFound, "there is no operator %+.60q", name)
	}
	return key, ends, p.o.Records.AddPass(ctx, Pass{Hash: hash, MadeAt: now, EndsAt: ends})
}

// NewLink makes a one-time link and returns its path and its end. Whoever opens it first is the operator of that name.
func (p *Page) NewLink(ctx context.Context, name string) (path string, ends time.Time, err error) {
	key, ends, err := p.add(ctx, kindLink, name, LinkLife)
	return "/login?code=" + key, ends, err
}

// cookie names the session's cookie. Browsers do not tell ports apart, and a machine may have several bridges.
func cookie(r *http.Request, secure bool) string {
	if secure {
		return "__Host-drawbridge"
	}
	_, port, _ := net.SplitHostPort(r.Host)
	return "drawbridge-" + port
}

// secure reports whether the browser came by TLS: to the proxy, which may have changed the Host.
func (p *Page) secure(r *http.Request) bool {
	return p.site.Scheme == "https" && (strings.EqualFold(r.Host, p.site.Host) || strings.EqualFold(r.Header.Get("Origin"), "https://"+p.site.Host))
}

// session returns who asks.
func (p *Page) session(r *http.Request) (session, error) {
	for _, secure := range []bool{true, false} {
		c, err := r.Cookie(cookie(r, secure))
		if err != nil {
			continue
		}
		if o, good, err := p.stands(r.Context(), c.Value); err != nil || good {
			return session{c.Value, bridge.Person{Name: o.Name, Role: o.Role, Address: api.Address(r)}}, err
		}
	}
	return session{}, nil
}

// stands reports whether a session has not ended, and whose it is.
func (p *Page) stands(ctx context.Context, key string) (o api.Operator, good bool, err error) {
	hash, o, ok := p.hash(kindSession, key)
	if !ok {
		return o, false, nil
	}
	pass, found, err := p.o.Records.FindPass(ctx, hash)
	return o, found && p.o.Now().Before(pass.EndsAt), err
}

// loginForm shows a button that spends the link. Opening a link spends nothing, so that a preview of it does no harm.
func (p *Page) loginForm(w http.ResponseWriter, r *http.Request) {
	code := ""
	if r.URL.Path == "/login" {
		code = r.URL.Query().Get("code")
	}
	status := http.StatusOK
	if code == "" {
		status = http.StatusUnauthorized
	}
	p.show(w, status, "login.html", loginPage{Code: code})
}

// loginPage is the model of login.html.
type loginPage struct {
	Code string
	// Spent says that the link that was tried opens nothing.
	Spent bool
}

// login spends a one-time link.
func (p *Page) login(w http.ResponseWriter, r *http.Request) {
	if err := readForm(w, r); err != nil {
		p.fail(w, r, err)
		return
	}
	o, opens, err := p.take(r.Context(), r.PostForm.Get("code"))
	if err != nil {
		p.fail(w, r, err)
		return
	}
	if !opens {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		if wait := p.attempts.Take(host); wait > 0 {
			httpx.SetRetryAfter(w.Header(), wait)
			p.fail(w, r, bridge.Errorf(bridge.RateLimited, "too many attempts; try again in a minute"))
			return
		}
		p.show(w, http.StatusUnauthorized, "login.html", loginPage{Spent: true})
		return
	}
	key, ends, err := p.add(r.Context(), kindSession, o.Name, SessionLife)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	p.setCookie(w, r, key, ends)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// take spends a link, and returns whose it is.
func (p *Page) take(ctx context.Context, key string) (o api.Operator, opens bool, err error) {
	hash, o, ok := p.hash(kindLink, key)
	if !ok {
		return o, false, nil
	}
	pass, found, err := p.o.Records.TakePass(ctx, hash)
	return o, found && p.o.Now().Before(pass.EndsAt), err
}

// setCookie gives the browser a session; an end in the past takes it away.
func (p *Page) setCookie(w http.ResponseWriter, r *http.Request, key string, ends time.Time) {
	secure := p.secure(r)
	http.SetCookie(w, &http.Cookie{Name: cookie(r, secure), Value: key, Path: "/", Expires: ends, HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: secure})
}

// logout ends the session.
func (p *Page) logout(w http.ResponseWriter, r *http.Request, s session) error {
	hash, _, _ := p.hash(kindSession, s.key)
	if _, _, err := p.o.Records.TakePass(r.Context(), hash); err != nil {
		return err
	}
	p.setCookie(w, r, "", time.Unix(0, 0))
	http.Redirect(w, r, "/login", http.StatusSeeOther)
	return nil
}
