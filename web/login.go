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
	"strings"
	"time"

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
	// Hash is an HMAC of the secret, and of whether it is a link or a session, with the operator's token as its key.
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
type session struct{ secret string }

// word is what a form of the session has to say.
func (s session) word() string {
	sum := sha256.Sum256([]byte("form|" + s.secret))
	return hex.EncodeToString(sum[:])
}

func (s session) owns(word string) bool {
	return subtle.ConstantTimeCompare([]byte(word), []byte(s.word())) == 1
}

// hash is the name under which a secret of a kind is recorded. A secret has 260 random bits, so that it needs no slow hash.
func (p *Page) hash(kind, secret string) string {
	h := hmac.New(sha256.New, []byte(p.o.Token))
	h.Write([]byte("page|" + kind + "|" + secret))
	return hex.EncodeToString(h.Sum(nil))
}

func newSecret() string { return strings.ToLower(rand.Text() + rand.Text()) }

// secretLength is that of newSecret.
const secretLength = 52

const (
	kindLink    = "link"
	kindSession = "session"
)

// add makes a pass that ends after life, and returns its secret.
func (p *Page) add(ctx context.Context, kind string, life time.Duration) (secret string, ends time.Time, err error) {
	now := p.o.Now()
	secret, ends = newSecret(), now.Add(life)
	return secret, ends, p.o.Records.AddPass(ctx, Pass{Hash: p.hash(kind, secret), MadeAt: now, EndsAt: ends})
}

// NewLink makes a one-time link and returns its path and its end. Whoever opens it first is the operator.
func (p *Page) NewLink(ctx context.Context) (path string, ends time.Time, err error) {
	secret, ends, err := p.add(ctx, kindLink, LinkLife)
	return "/login?code=" + secret, ends, err
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
		if err != nil || len(c.Value) != secretLength {
			continue
		}
		if good, err := p.stands(r.Context(), c.Value); err != nil || good {
			return session{secret: c.Value}, err
		}
	}
	return session{}, nil
}

// stands reports whether a session has not ended.
func (p *Page) stands(ctx context.Context, secret string) (bool, error) {
	pass, found, err := p.o.Records.FindPass(ctx, p.hash(kindSession, secret))
	return found && p.o.Now().Before(pass.EndsAt), err
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
	pass, found, err := p.o.Records.TakePass(r.Context(), p.hash(kindLink, r.PostForm.Get("code")))
	if err != nil {
		p.fail(w, r, err)
		return
	}
	if !found || !p.o.Now().Before(pass.EndsAt) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		if wait := p.attempts.Take(host); wait > 0 {
			httpx.SetRetryAfter(w.Header(), wait)
			p.fail(w, r, bridge.Errorf(bridge.RateLimited, "too many attempts; try again in a minute"))
			return
		}
		p.show(w, http.StatusUnauthorized, "login.html", loginPage{Spent: true})
		return
	}
	secret, ends, err := p.add(r.Context(), kindSession, SessionLife)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	p.setCookie(w, r, secret, ends)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// setCookie gives the browser a session; an end in the past takes it away.
func (p *Page) setCookie(w http.ResponseWriter, r *http.Request, secret string, ends time.Time) {
	secure := p.secure(r)
	http.SetCookie(w, &http.Cookie{Name: cookie(r, secure), Value: secret, Path: "/", Expires: ends, HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: secure})
}

// logout ends the session.
func (p *Page) logout(w http.ResponseWriter, r *http.Request, s session) error {
	if _, _, err := p.o.Records.TakePass(r.Context(), p.hash(kindSession, s.secret)); err != nil {
		return err
	}
	p.setCookie(w, r, "", time.Unix(0, 0))
	http.Redirect(w, r, "/login", http.StatusSeeOther)
	return nil
}
