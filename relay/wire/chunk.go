package wire

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"time"
)

// Bounds of frames that travel in chunks. Both ends keep them.
const (
	// MaxWhole is the largest frame in bytes that travels whole if it could travel in chunks.
	MaxWhole = 32 << 10
	// MaxChunk is how many bytes of a frame one chunk carries. As text it takes a third more and fits MaxToRelay.
	MaxChunk = 16 << 10
	// MaxBody bounds a frame that travels in chunks, in bytes of JSON.
	MaxBody = 8 << 20
	// MaxBodies is how many frames may travel in chunks at a time in one direction, and MaxBodyBytes their bytes together.
	MaxBodies    = 4
	MaxBodyBytes = 16 << 20
	// BodyWindow is how many bytes of a frame may be on their way unconfirmed.
	BodyWindow = 128 << 10
	// BodyPause is the longest time between two chunks of a frame, and BodyTime the longest time for all of them. A receiver that
	// waited longer forgets the frame.
	BodyPause = 30 * time.Second
	BodyTime  = 10 * time.Minute
)

// Chunked announces a frame that is larger than [MaxWhole]. Its bytes follow in [Chunk] frames after the receiver confirmed. The
// signature is checked before a byte of it is stored.
type Chunked struct {
	// N is 1 for the first frame that an end announces on a connection, and one more for each next one.
	N int64 `json:"n"`
	// Kind is the name of the frame's member, such as "outcome", and For the id of the request that it belongs to.
	Kind string `json:"kind"`
	For  string `json:"for"`
	// Size is the frame's length in bytes and Digest its SHA-256 in hex.
	Size   int64  `json:"size"`
	Digest string `json:"digest"`
	// Key is the id of the sender's key that made Sig. Sig covers all fields and the connection, see [ConnectionID].
	Key string `json:"key"`
	Sig string `json:"sig"`
}

// Chunk is the next part of the frame N.
type Chunk struct {
	N int64 `json:"n"`
	// At is the offset of its first byte.
	At int64 `json:"at"`
	// Data is base64url without padding of 1 to MaxChunk bytes.
	Data string `json:"data"`
}

// Receipt is the receiver's word on the frame N. Exactly one of its other fields is set.
type Receipt struct {
	N int64 `json:"n"`
	// Upto is the offset up to which the sender may send.
	Upto int64 `json:"upto,omitempty"`
	// Whole says that the frame arrived whole and fits its digest.
	Whole bool `json:"whole,omitempty"`
	// Refused says why the receiver forgot the frame.
	Refused BodyRefusal `json:"refused,omitempty"`
}

// BodyRefusal says why a receiver does not take a frame in chunks.
type BodyRefusal string

// The refusals of a frame in chunks. After each of them the receiver stores nothing of the frame.
const (
	BodyTooLarge BodyRefusal = "too_large"
	BodyTooMany  BodyRefusal = "too_many"
	// BodyForged is for a signature that does not fit, such as one of another connection.
	BodyForged BodyRefusal = "forged"
	// BodyUnwanted is for an answer that nobody waits for.
	BodyUnwanted BodyRefusal = "unwanted"
	// BodyRepeated and BodyMissing are for a chunk that begins before or behind the end of what is there.
	BodyRepeated BodyRefusal = "repeated"
	BodyMissing  BodyRefusal = "missing"
	// BodyAhead is for a chunk beyond what the receiver confirmed or what was announced.
	BodyAhead  BodyRefusal = "ahead"
	BodyDigest BodyRefusal = "digest"
	BodyLate   BodyRefusal = "late"
	// BodyMalformed is for bytes that are not the announced frame.
	BodyMalformed BodyRefusal = "malformed"
)

// Known reports whether b is one of the refusals.
func (b BodyRefusal) Known() bool {
	switch b {
	case BodyTooLarge, BodyTooMany, BodyForged, BodyUnwanted, BodyRepeated, BodyMissing, BodyAhead, BodyDigest, BodyLate, BodyMalformed:
		return true
	default:
		return false
	}
}

// ConnectionID names the connection that a handshake opened, by the nonces of both ends. Nobody can open a second one with the same id.
func ConnectionID(h Hello, c Challenge) string {
	sum := sha256.Sum256(lines("relay-connection-v1", h.Relay, h.Nonce, c.Key, c.Nonce))
	return hex.EncodeToString(sum[:])
}

// Announce describes a frame that is to travel in chunks over a connection, and signs the description.
func Announce(key ed25519.PrivateKey, connection string, c Chunked, frame []byte) (Chunked, error) {
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return Chunked{}, errors.New("announce frame: the signing key is not an Ed25519 key")
	}
	sum := sha256.Sum256(frame)
	c.Size, c.Digest, c.Key = int64(len(frame)), hex.EncodeToString(sum[:]), KeyID(public)
	c.Sig = sign(key, c.base(connection))
	return c, nil
}

func (c Chunked) base(connection string) []byte {
	return lines("relay-chunked-v1", connection, c.Key, strconv.FormatInt(c.N, 10), c.Kind, c.For, strconv.FormatInt(c.Size, 10), c.Digest)
}

// Signed reports whether the holder of key announced the frame on this connection.
func (c Chunked) Signed(key ed25519.PublicKey, connection string) bool {
	return c.Key == KeyID(key) && verified(key, c.base(connection), c.Sig)
}

// Fits reports whether body is the announced frame, byte for byte.
func (c Chunked) Fits(body []byte) bool {
	sum := sha256.Sum256(body)
	return int64(len(body)) == c.Size && hex.EncodeToString(sum[:]) == c.Digest
}

// NewChunk returns the chunk of frame n that begins at an offset.
func NewChunk(n, at int64, data []byte) Chunk {
	return Chunk{N: n, At: at, Data: text64.EncodeToString(data)}
}

// Bytes returns what the chunk carries.
func (c Chunk) Bytes() ([]byte, error) {
	data, err := text64.DecodeString(c.Data)
	// The decoder skips line ends, so the length is compared as well: one content has one spelling.
	if err != nil || len(data) == 0 || len(data) > MaxChunk || text64.EncodedLen(len(data)) != len(c.Data) {
		return nil, errors.New("a chunk without data, or with malformed data")
	}
	return data, nil
}

func (c Chunked) check() error {
	if c.N < 1 || c.Size < 1 || len(c.Digest) != 2*sha256.Size || !ValidAction(c.Kind) || !ValidRequestID(c.For) {
		return errors.New("a frame in chunks is announced with a malformed field")
	}
	return nil
}

func (c Chunk) check() error {
	if c.N < 1 || c.At < 0 {
		return errors.New("a chunk with a malformed number or offset")
	}
	_, err := c.Bytes()
	return err
}

func (r Receipt) check() error {
	said := 0
	for _, is := range []bool{r.Upto > 0, r.Whole, r.Refused != ""} {
		if is {
			said++
		}
	}
	if r.N < 1 || r.Upto < 0 || said != 1 || r.Refused != "" && !r.Refused.Known() {
		return errors.New("a receipt must say exactly one thing")
	}
	return nil
}

// Body names the kind of a frame that may travel in chunks and the request that it belongs to; ok is false for any other frame.
func (f Frame) Body() (kind, id string, ok bool) {
	switch {
	case f.Outcome != nil:
		return "outcome", f.Outcome.ID, true
	case f.Found != nil:
		return "found", f.Found.ID, true
	case f.Turn != nil:
		return "turn", f.Turn.ID, true
	case f.Ended != nil:
		return "ended", f.Ended.ID, true
	case f.TurnFound != nil:
		return "turn_found", f.TurnFound.ID, true
	case f.TurnStopped != nil:
		return "turn_stopped", f.TurnStopped.ID, true
	case f.TurnPeeked != nil:
		return "turn_peeked", f.TurnPeeked.ID, true
	case f.MCPCall != nil:
		return "mcp_call", f.MCPCall.ID, true
	case f.MCPPart != nil:
		return "mcp_part", f.MCPPart.ID, true
	}
	return "", "", false
}

// TextSize is how many bytes the long texts of such a frame have before they are encoded.
func (f Frame) TextSize() int {
	switch {
	case f.Outcome != nil:
		return len(f.Outcome.Stdout) + len(f.Outcome.Stderr)
	case f.Found != nil && f.Found.Outcome != nil:
		return len(f.Found.Outcome.Stdout) + len(f.Found.Outcome.Stderr)
	case f.Turn != nil:
		return len(f.Turn.Body)
	case f.Ended != nil:
		return len(f.Ended.Text) + len(f.Ended.Evidence)
	case f.TurnFound != nil && f.TurnFound.Ended != nil:
		return len(f.TurnFound.Ended.Text) + len(f.TurnFound.Ended.Evidence)
	case f.TurnStopped != nil && f.TurnStopped.Ended != nil:
		return len(f.TurnStopped.Ended.Text) + len(f.TurnStopped.Ended.Evidence)
	case f.TurnPeeked != nil && f.TurnPeeked.Peeked != nil:
		return len(f.TurnPeeked.Peeked.Data)
	case f.MCPCall != nil:
		return len(f.MCPCall.Body)
	case f.MCPPart != nil:
		return len(f.MCPPart.Body)
	}
	return 0
}

// ReadBody reads a frame that arrived in chunks, as strictly as [ReadFrame], and refuses one that is not what c announced.
func (c Chunked) ReadBody(body []byte) (Frame, error) {
	f, err := readFrame(body, MaxBody)
	if err != nil {
		return Frame{}, err
	}
	if kind, id, ok := f.Body(); !ok || kind != c.Kind || id != c.For {
		return Frame{}, errors.New("read frame: it is not the announced frame")
	}
	return f, nil
}

// Fitting returns the frame with so much of its outputs cut off at their beginnings that it has at most limit bytes, which must
// leave room for the rest of it. What was cut counts as omitted.
func (f Frame) Fitting(limit int) (Frame, error) {
	for keep := limit; ; keep /= 2 {
		data, err := f.Bytes()
		if err != nil || len(data) <= limit {
			return f, err
		}
		if keep == 0 {
			return Frame{}, errors.New("write frame: it is too large even without its outputs")
		}
		f = f.keeping(keep)
	}
}

func (f Frame) keeping(keep int) Frame {
	switch {
	case f.Outcome != nil:
		out := f.Outcome.keeping(keep)
		f.Outcome = &out
	case f.Found != nil && f.Found.Outcome != nil:
		found, out := *f.Found, f.Found.Outcome.keeping(keep)
		found.Outcome = &out
		f.Found = &found
	}
	return f
}

func (o Outcome) keeping(keep int) Outcome {
	o.Answer = o.Answer.Keeping(keep)
	return o
}
