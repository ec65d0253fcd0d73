package bridge

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"sync"
	"time"
)

var idText = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

var idClock struct {
	sync.Mutex // guards last
	last       uint64
}

// NewID returns prefix and 26 characters that sort by the time they were made:
// 64 bits of microseconds, then 64 random bits. Within one process
// ids never go backwards, so that "newest first" can be read off the id.
func NewID(prefix string) string {
	idClock.Lock()
	now := uint64(time.Now().UnixMicro())
	if now <= idClock.last {
		now = idClock.last + 1
	}
	idClock.last = now
	idClock.last = now
	idClock.Unlock()
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], now)
	if _, err := rand.Read(raw[8:]); err != nil {
		// crypto/rand never fails on the systems that we run on; see its documentation.
		panic(err)
	}
	return prefix + idText.EncodeToString(raw[:])
}
