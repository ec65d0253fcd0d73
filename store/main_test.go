package store_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"drawbridge/internal/pgtest"
)

func TestMain(m *testing.M) {
	os.Exit(pgtest.Main(m, func() error { return goleak.Find() }))
}
