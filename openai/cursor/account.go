package cursor

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"drawbridge/internal/httpx"
	"drawbridge/internal/loosejson"
	"drawbridge/openai/cursor/wire"
	"drawbridge/openai/upstream"
)

// account holds the access token that the API key is exchanged for.
type account struct {
	c *Client
	// exchanging holds a value while the key is exchanged.
	exchanging chan struct{}

	mu    sync.Mutex // guards what follows
	token string
	// until is when the token is exchanged anew, end when it is good no more.
	until, end time.Time
}

const (
	// refreshBefore is how long before its end a token is exchanged anew; unknownFor is how long one is used whose end cannot be read.
	refreshBefore = 5 * time.Minute
	unknownFor    = 10 * time.Minute
	// againAfter is how long an exchange waits that failed while the token is still good.
	againAfter = 30 * time.Second
	callFor    = 20 * time.Second
	maxAnswer  = 4 << 20
	maxModels  = 5000
)

// bearer returns a token that is good for some minutes. While the key is exchanged anew, the old token serves as long as it is good.
func (a *account) bearer(ctx context.Context) (string, error) {
	select {
	case a.exchanging <- struct{}{}:
		defer func() { <-a.exchanging }()
	default:
		if token, good, _ := a.state(); good {
			return token, nil
		}
		select {
		case a.exchanging <- struct{}{}:
			defer func() { <-a.exchanging }()
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	old, good, fresh := a.state()
	if fresh {
		return old, nil
	}
	token, err := a.exchange(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	switch {
	case err != nil && good:
		a.until = now.Add(againAfter)
		return old, nil
	case err != nil:
		return "", err
	}
	a.token, a.until, a.end = token, now.Add(unknownFor), now.Add(unknownFor)
	if end := expiry(token); !end.IsZero() {
		a.until, a.end = end.Add(-refreshBefore), end
	}
	return token, nil
}

// state is the token, whether it is still good, and whether it is for some minutes.
func (a *account) state() (token string, good, fresh bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	return a.token, a.token != "" && now.Before(a.end), a.token != "" && now.Before(a.until)
}

// exchange asks for a token.
func (a *account) exchange(ctx context.Context) (string, error) {
	body, err := a.call(ctx, http.MethodPost, wire.Exchange)
	if err != nil {
		return "", err
	}
	var got struct {
		Access string `json:"accessToken"`
	}
	if json.Unmarshal(body, &got) != nil || got.Access == "" || strings.ContainsAny(got.Access, " \r\n") {
		return "", upstream.NotBegun(http.StatusServiceUnavailable, "upstream_garbage", "the service sent no token for the key; check the url of upstream "+a.c.o.Name)
	}
	return got.Access, nil
}

// forget has the key exchanged anew.
func (a *account) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.token = ""
}

// expiry reads when a JWT ends; zero where it does not say.
func expiry(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	var claims struct {
		Exp float64 `json:"exp"`
	}
	if err != nil || json.Unmarshal(raw, &claims) != nil || claims.Exp <= 0 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Exp), 0)
}

// models lists the models of the account.
func (a *account) models(ctx context.Context) ([]upstream.Model, error) {
	body, err := a.call(ctx, http.MethodGet, wire.Models)
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []loosejson.Value[struct {
			ID      string                                     `json:"id"`
			Aliases loosejson.Value[[]loosejson.Value[string]] `json:"aliases"`
		}] `json:"items"`
	}
	if json.Unmarshal(body, &list) != nil || list.Items == nil {
		return nil, upstream.NotBegun(http.StatusServiceUnavailable, "upstream_garbage", "the service's list of models cannot be read; look at the url of upstream "+a.c.o.Name)
	}
	var out []upstream.Model
	for _, each := range list.Items[:min(len(list.Items), maxModels)] {
		m := upstream.Model{ID: each.Is.ID, Owner: a.c.o.Name}
		if m.ID == "" {
			continue
		}
		for _, alias := range each.Is.Aliases.Is {
			if alias.Is != "" {
				m.Aliases = append(m.Aliases, alias.Is)
			}
		}
		out = append(out, m)
	}
	return out, nil
}

// call asks the service with the API key itself.
func (a *account) call(ctx context.Context, method, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	var in io.Reader
	if method == http.MethodPost {
		in = bytes.NewReader([]byte("{}"))
	}
	req, err := http.NewRequestWithContext(ctx, method, a.c.o.URL+path, in)
	if err != nil {
		return nil, fmt.Errorf("ask the service of upstream %s: %w", a.c.o.Name, err)
	}
	req.Header.Set("Authorization", "Bearer "+a.c.o.Key)
	req.Header.Set("User-Agent", userAgent)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := a.c.http.Do(req)
	if err != nil {
		return nil, a.c.unreached(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case err != nil:
		return nil, a.c.unreached(err)
	case resp.StatusCode == http.StatusOK:
		return body, nil
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
		return nil, a.c.badKey()
	case resp.StatusCode == http.StatusTooManyRequests:
		e := upstream.NotBegun(http.StatusTooManyRequests, "rate_limit_exceeded", "the service asks to wait")
		e.Type, e.RetryAfter = "rate_limit_error", httpx.RetryAfter(resp.Header, time.Now())
		return nil, e
	}
	return nil, upstream.NotBegun(http.StatusServiceUnavailable, "upstream_refused", fmt.Sprintf("the service of upstream %s answers %s with the status %d", a.c.o.Name, path, resp.StatusCode))
}

const userAgent = "drawbridge"
