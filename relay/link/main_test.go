package link_test

import (
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	syscall.Umask(0o077) // a lax one makes folders that no relay trusts
	goleak.VerifyTestMain(m)
}
