#!/usr/bin/env bash
# Prints the flags of `go test` for the race detector, or nothing where no C compiler is found: the detector needs cgo.
# SQLite is C made into Go: the race detector leaves out what it does to its own memory, which would take six times as long.
set -euo pipefail
if command -v "${CC:-$(go env CC)}" >/dev/null 2>&1; then
  echo "-race -gcflags=modernc.org/...=-race=false"
else
  echo "tests: no C compiler (${CC:-$(go env CC)}): the tests run WITHOUT the race detector. Install gcc or clang to have it." >&2
fi
