#!/usr/bin/env bash
# Installs PostgreSQL's server binaries for the tests where they are missing and this user may install them.
# Tests start a private cluster of their own; no service is needed, and none is left running.
set -uo pipefail
[ -n "${DRAWBRIDGE_TEST_POSTGRES:-}" ] && exit 0
command -v initdb >/dev/null 2>&1 && exit 0
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null && exit 0
compgen -G '/usr/pgsql-*/bin/initdb' >/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "installing PostgreSQL's server binaries for the tests"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq && apt-get install -y -qq --no-install-recommends postgresql >/dev/null
  service postgresql stop >/dev/null 2>&1 || true
  exit 0
fi
echo "PostgreSQL's server binaries are missing: install the package postgresql, or set DRAWBRIDGE_TEST_POSTGRES=postgres://…" >&2
exit 1
