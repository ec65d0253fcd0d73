package main

import (
	"image"
	"image/color"
	"strings"
	"testing"

	goqr "github.com/piglig/go-qr"
)

// TestQRCode: what stands on a terminal is a code that a reader reads: dark modules on light ones, with a margin.
func TestQRCode(t *testing.T) {
	t.Parallel()
	const link = "https://bridge.example.com/login?code=5a5s2jl3ky55ff3xuxmu5ppajetge4xk64ehogpp373ikkiif5zq"
	drawn, err := qrCode(link)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(drawn, "\n"), "\n")
	const scale, rows = 8, 2
	var picture *image.Gray
	for y, line := range lines {
		line, ends := strings.CutSuffix(line, "\x1b[0m")
		line, begins := strings.CutPrefix(line, "\x1b[30;107m")
		if !begins || !ends {
			t.Fatalf("line %d leaves the terminal's colors: %q", y, line)
		}
		modules := []rune(line)
		if picture == nil {
			picture = image.NewGray(image.Rect(0, 0, len(modules)*scale, len(lines)*rows*scale))
		}
		for x, r := range modules {
			for i := range rows * scale * scale {
				dark := r == '█' || r == '▀' && i < scale*scale || r == '▄' && i >= scale*scale
				if !dark {
					picture.SetGray(x*scale+i%scale, y*rows*scale+i/scale, color.Gray{255})
				}
			}
		}
	}
	if got, err := goqr.Decode(picture); err != nil || got != link {
		t.Errorf("a reader reads %q, %v", got, err)
	}
}

func TestHere(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{"http://127.0.0.1:7400/login?code=x": true, "http://localhost:7400/": true, "http://[::1]:7400/": true, "http://0.0.0.0:7400/": true, "https://bridge.example.com/login?code=x": false, "http://192.168.1.5:7400/": false} {
		if here(address) != want {
			t.Errorf("%s: %v", address, !want)
		}
	}
}
