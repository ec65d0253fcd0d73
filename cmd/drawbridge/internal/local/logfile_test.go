package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A log goes on behind what is there, and two files of bounded size are all that it ever takes. No line is cut.
func TestLogsAreBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bridge.log")
	line := strings.Repeat("x", 9) + "\n"
	for range 3 { // starts of a program
		log, err := openLog(path, 100)
		if err != nil {
			t.Fatal(err)
		}
		for range 9 {
			if n, err := log.Write([]byte(line)); n != len(line) || err != nil {
				t.Fatal(n, err)
			}
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	}
	want := map[string]int{"bridge.log": 70, "bridge.log.1": 100} // 27 lines: ten, ten, seven
	list, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(list) != len(want) {
		t.Errorf("%v, %v", list, err)
	}
	for name, size := range want {
		data, err := os.ReadFile(filepath.Join(filepath.Dir(path), name))
		if err != nil || len(data) != size || strings.ReplaceAll(string(data), line, "") != "" {
			t.Errorf("%s holds %d bytes, want %d; %v", name, len(data), size, err)
		}
	}
	log, err := openLog(path, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if n, err := log.Write(make([]byte, 500)); n != 500 || err != nil { // more than a whole log
		t.Error(n, err)
	}
}
