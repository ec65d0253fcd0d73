package main

import (
	"net"
	"net/url"
	"strings"

	goqr "github.com/piglig/go-qr"
)

// quietZone is the light margin around a code, in modules; readers need some.
const quietZone = 2

// qrCode draws a text as a QR code for a terminal, two rows of modules in a line. It sets the colors itself, because a reader
// needs dark on light.
func qrCode(text string) (string, error) {
	code, err := goqr.EncodeText(text, goqr.Low)
	if err != nil {
		return "", err
	}
	size := code.Size()
	dark := func(x, y int) bool { return x >= 0 && y >= 0 && x < size && y < size && code.Module(x, y) }
	var b strings.Builder
	for y := -quietZone; y < size+quietZone; y += 2 {
		b.WriteString("\x1b[30;107m")
		for x := -quietZone; x < size+quietZone; x++ {
			b.WriteString(map[[2]bool]string{{false, false}: " ", {true, false}: "▀", {false, true}: "▄", {true, true}: "█"}[[2]bool{dark(x, y), dark(x, y+1)}])
		}
		b.WriteString("\x1b[0m\n")
	}
	return b.String(), nil
}

// here reports whether an address leads to this machine alone, so that a phone cannot open it.
func here(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return true
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}
