package wire

import "crypto/ed25519"

// Base is what a request's signature covers.
func Base(s Signed, relay string) []byte { return s.base(RunPath, relay) }

// Resign signs an envelope as it stands, as a bridge that was taken over can.
func Resign(key ed25519.PrivateKey, relay string, s Signed) Signed {
	s.Key = KeyID(key.Public().(ed25519.PublicKey))
	s.Sig = sign(key, s.base(RunPath, relay))
	return s
}
