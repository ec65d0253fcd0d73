package logs_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"drawbridge/internal/logs"
)

// TestWriter: what is not a terminal gets JSON unless told otherwise.
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
	if _, forPeople := logs.Writer(device, logs.Auto).(zerolog.ConsoleWriter); forPeople {
		t.Error("a device where nobody reads gets lines for people")
	}
}
