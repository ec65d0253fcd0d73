package webhooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strings"
)

// SignatureHeader carries "sha256=" and the hex HMAC-SHA256 of the raw body.
const SignatureHeader = "X-Webhook-Signature"

const signaturePrefix = "sha256="

// parseSignature reads the one signature header: exact prefix, exactly 64 hex
// digits. Upper-case digits are hex digits too and name the same bytes.
func parseSignature(h http.Header) (mac [sha256.Size]byte, ok bool) {
	values := h.Values(SignatureHeader)
	if len(values) != 1 {
		return mac, false
	}
	digits, found := strings.CutPrefix(values[0], signaturePrefix)
	if !found || len(digits) != hex.EncodedLen(len(mac)) {
		return mac, false
	}
	_, err := hex.Decode(mac[:], []byte(digits))
	return mac, err == nil
}

// signed reports whether the body carries the signature of the key that the
// path names. Every active key's secret for the operation is derived and
// compared, also when the header is malformed, the key version unknown or the
// operation made up, so that all refusals cost the same.
func (rc *Receiver) signed(r *http.Request, v *visit) bool {
	claimed, wellFormed := parseSignature(r.Header)
	right := 0
	for _, k := range rc.keys {
		h := hmac.New(sha256.New, []byte(k.WebhookSecret(v.op)))
		h.Write(v.body)
		named := subtle.ConstantTimeCompare([]byte(k.ID), []byte(v.keyver))
		equal := 0
		if hmac.Equal(h.Sum(nil), claimed[:]) {
			equal = 1
		}
		right |= named & equal
	}
	return wellFormed && right == 1
}
