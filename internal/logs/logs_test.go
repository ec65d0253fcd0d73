package logs_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"drawbridge/internal/logs"
)

// TestWriter: a file or pipe gets JSON unless told otherwise; a character device gets lines for people.
func TestWriter(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{logs.Auto: `"message":"ready"`, logs.JSON: `"message":"ready"`, logs.Console: "INF ready"} {
		var out bytes.Buffer
		log := zerolog.New(logs.Writer(&out, format)).With().Timestamp().Logger()
		log.Info().Msg("ready")
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: %s", format, out.String())
		}
	}
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	if _, forPeople := logs.Writer(device, logs.Auto).(zerolog.ConsoleWriter); !forPeople {
		t.Error("a character device gets JSON")
	}
	if _, forPeople := logs.Writer(device, logs.JSON).(zerolog.ConsoleWriter); forPeople {
		t.Error("JSON was asked for, and a character device does not get it")
	}
}
