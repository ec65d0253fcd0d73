package store_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"drawbridge/bridge"
	"drawbridge/store"
)

// TestCanceledLookups: when the caller gave up, what the driver says of it is the caller's cancellation and not a database that
// cannot be reached. A failure of the database stays one, also while the caller gives up.
func TestCanceledLookups(t *testing.T) {
	t.Parallel()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tt := range map[string]struct {
		err error
		// canceled is wanted of a caller that gave up, kind of one that did not.
		canceled bool
		kind     bridge.ErrorKind
	}{
		"a connection cut in the middle":  {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, true, bridge.Unavailable},
		"a dial that was given up":        {fmt.Errorf("dial: %w", &net.OpError{Op: "dial", Err: context.Canceled}), true, bridge.Unavailable},
		"a statement that was given up":   {&pgconn.PgError{Code: "57014", Message: "canceling statement due to user request"}, true, bridge.Unavailable},
		"an answer that was cut":          {io.ErrUnexpectedEOF, true, bridge.Unavailable},
		"a connection that is not usable": {driver.ErrBadConn, true, bridge.Unavailable},
		"a transaction that was ended":    {sql.ErrTxDone, true, ""},
		"the context's own error":         {fmt.Errorf("query: %w", context.Canceled), true, ""},
		"a full disk":                     {&pgconn.PgError{Code: "53100"}, false, bridge.Unavailable},
		"a broken row":                    {errors.New("malformed row"), false, ""},
		"the caller's own error":          {bridge.Errorf(bridge.Conflict, "taken"), false, bridge.Conflict},
		"a row that is not there":         {bridge.ErrNoRow, false, ""},
	} {
		err := store.Canceled(gone, tt.err)
		if errors.Is(err, context.Canceled) != tt.canceled || (tt.canceled && bridge.KindOf(err) != "") || (!tt.canceled && bridge.KindOf(err) != tt.kind) {
			t.Errorf("%s, given up: %q, %v", name, bridge.KindOf(err), err)
		}
		if err := store.Canceled(t.Context(), tt.err); bridge.KindOf(err) != tt.kind || !errors.Is(err, tt.err) {
			t.Errorf("%s: %q, %v", name, bridge.KindOf(err), err)
		}
	}
	if store.Canceled(gone, nil) != nil {
		t.Error("an error out of nothing")
	}
}
