package store_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"drawbridge/proof/pg"
)

func TestMain(m *testing.M) {
	os.Exit(pg.Main(m, func() error { return goleak.Find() }))
}
