package httpx_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"drawbridge/internal/httpx"
)

// A challenge names an error only for a token that was sent; clients take one
// without a token for a server with broken OAuth.
func TestChallenge(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		header  http.Header
		invalid bool
		says    string
	}{
		"nothing":         {http.Header{}, false, "a token is required"},
		"empty bearer":    {http.Header{"Authorization": {"Bearer "}}, false, "a token is required"},
		"another scheme":  {http.Header{"Authorization": {"Basic eDp5"}}, false, "a token is required"},
		"a wrong one":     {http.Header{"Authorization": {"Bearer dbt_wrong"}}, true, "a token is required"},
		"own header":      {http.Header{"X-Bridge-Token": {"wrong"}}, true, "a token is required"},
		"claude, cursor":  {http.Header{"Authorization": {"Bearer ${DRAWBRIDGE_AGENT_TOKEN}"}}, true, "the variable DRAWBRIDGE_AGENT_TOKEN in the place of the token"},
		"cursor":          {http.Header{"Authorization": {"Bearer ${env:TOKEN}"}}, true, "the variable TOKEN in the place of the token"},
		"opencode":        {http.Header{"Authorization": {"Bearer {env:TOKEN}"}}, true, "the variable TOKEN in the place of the token"},
		"shell":           {http.Header{"Authorization": {"Bearer $TOKEN"}}, true, "the variable TOKEN in the place of the token"},
		"windows":         {http.Header{"X-Bridge-Token": {"%TOKEN%"}}, true, "the variable TOKEN in the place of the token"},
		"with a default":  {http.Header{"Authorization": {"Bearer ${TOKEN:-none}"}}, true, "the variable TOKEN in the place of the token"},
		"within a prefix": {http.Header{"Authorization": {"Bearer dbt_${TOKEN}"}}, true, "the variable TOKEN in the place of the token"},
		"hostile":         {http.Header{"Authorization": {"Bearer ${\u202e\x7f}"}}, true, "the variable (without a name) in the place"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header = tt.header
		w := httptest.NewRecorder()
		httpx.WriteUnauthorized(w, r, "a token is required")
		got := w.Header().Get("WWW-Authenticate")
		if !strings.HasPrefix(got, `Bearer realm="drawbridge"`) || strings.Contains(got, `error="invalid_token"`) != tt.invalid {
			t.Errorf("%s: challenge %s", name, got)
		}
		var body httpx.ErrorBody
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != http.StatusUnauthorized || !strings.Contains(body.Error.Message, tt.says) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// What a token may look like is not taken for a reference.
func TestTokensAreNotReferences(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"dbt_0123456789abcdef", "a$b", "a-token-of-the-bridge", "100%", "x{y}", "$", "${", "p$$w", "eyJhbGciOi.J9.e30="} {
		if got, ok := httpx.Unexpanded(token); ok {
			t.Errorf("%q was taken for the reference %q", token, got)
		}
	}
}
