package cursor

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"drawbridge/proof/fields"
)

// TestFieldsThatInform: the key is exchanged and the models are listed, whatever form a field has that only informs.
func TestFieldsThatInform(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		json    string
		decides []string
		call    func(*account) (string, error)
		want    string
	}{
		"exchange": {`{"accessToken":"a.b.c","refreshToken":"r","authId":"x","expiresIn":3600,"user":{"email":"me@x"}}`, []string{"accessToken"},
			func(a *account) (string, error) { return a.bearer(t.Context()) }, "a.b.c"},
		"models": {`{"items":[{"id":"m1","displayName":"M","description":"d","aliases":["m"],"parameters":[{"id":"p","values":[{"value":"v"}]}],"variants":[{"isDefault":true}]},{"id":"m2"}],"next":"x"}`, []string{"items", "items[].id"},
			func(a *account) (said string, err error) {
				models, err := a.models(t.Context())
				for _, m := range models {
					said += m.ID + " "
				}
				return said, err
			}, "m1 m2 "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var body atomic.Value
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, fmt.Sprint(body.Load())) }))
			defer web.Close()
			client, err := New(Options{Name: "c", Key: "k", URL: web.URL})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			for _, b := range fields.Break(c.json, c.decides...) {
				body.Store(b.JSON)
				client.account.forget()
				if got, err := c.call(&client.account); err != nil || got != c.want {
					t.Errorf("%s is %s: %q, %v", b.Path, b.Form, got, err)
				}
			}
		})
	}
}
