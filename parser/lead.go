package parser

import (
	"encoding/binary"
	"math/bits"
)

const (
	// peek is how far beyond its start a line is looked at in one step.
	peek = 16
	// low selects the bits that are zero in all bytes below '@': in blanks,
	// digits and every decoration but the few that opens holds.
	low = 0xc0c0c0c0c0c0c0c0
)

// opens marks the bytes from '@' on, not letters, that a line of interest can
// begin with: fences, emphasis, boxes, bytes that are not UTF-8, and the first
// bytes of invisible characters and bullets. Cyrillic, Arabic, Chinese and
// Japanese lines begin with none of them.
var opens = func() (t [256]uint8) {
	for c := 0x7f; c < 0x100; c++ {
		if c <= 0xc2 || c >= 0xf5 {
			t[c] = 1
		}
	}
	for _, c := range []byte("[_`~\xe2\xef\xf3") {
		t[c] = 1
	}
	return t
}()

// mayMatter is the first and cheap look at a line. Text begins at the start of
// the line and may run on behind it. The answer is exact in one direction only:
// false means that the line, seen alone, is neither command, near miss nor
// fence. There is no branch here that depends on the kind of line, because
// guessing it wrong costs more than finding the end of the line.
func mayMatter(text []byte) bool {
	if len(text) < peek {
		return true
	}
	high := binary.LittleEndian.Uint64(text) & low
	if high == 0 {
		return mayMatterDeep(text)
	}
	// An LF is skipped too. The bytes of the next line then decide, which can
	// only cost a second look.
	return startsKeyword(text[bits.TrailingZeros64(high)/8:])
}

// mayMatterDeep is mayMatter for lines with eight or more blanks or other bytes
// below '@'.
func mayMatterDeep(text []byte) bool {
	for i := range len(text) - peek {
		switch {
		case text[i] == '\n':
			return false
		case text[i] >= '@':
			return startsKeyword(text[i:])
		}
	}
	return true
}

// startsKeyword compares three letters with the beginnings of the four keywords
// in any case, all at once: x-1 has its top bit set for no small x but 0.
func startsKeyword(s []byte) bool {
	const (
		sub = 's' | 'u'<<8 | 'b'<<16
		loc = 'l' | 'o'<<8 | 'c'<<16
		rem = 'r' | 'e'<<8 | 'm'<<16
		web = 'w' | 'e'<<8 | 'b'<<16
	)
	v := uint64(binary.LittleEndian.Uint32(s)|0x20202020) & 0xffffff
	hit := (((v ^ sub) - 1) | ((v ^ loc) - 1) | ((v ^ rem) - 1) | ((v ^ web) - 1)) >> 63
	return uint8(hit)|opens[s[0]] != 0
}
