#!/usr/bin/env bash
# Runs the official MCP conformance suite and the official TypeScript clients against the MCP door. The packages are installed from
# the npm registry as package-lock.json pins them, Node among them, and only when they are not there yet.
#   --write        put what was counted into docs/reference/mcp-conformance.md
set -euo pipefail
cd "$(dirname "$0")/.."
dir=proof/mcp/npm
write=
for arg in "$@"; do
  case $arg in
    --write) write=--write ;;
    *) echo "usage: scripts/conformance.sh [--write]" >&2; exit 2 ;;
  esac
done

# not_run says why nothing was run, and ends.
not_run() {
  echo "MCP conformance: NOT RUN: $1" >&2
  exit 1
}

# install puts the packages there, unless these very ones are.
install() {
  local wanted out
  wanted=$(cksum <"$dir/package-lock.json")
  [ "$(cat "$dir/node_modules/.complete" 2>/dev/null)" = "$wanted" ] && return
  command -v npm >/dev/null 2>&1 || not_run "npm is not installed"
  echo "MCP conformance: installing its packages"
  out=$(cd "$dir" && timeout -k 5 "${NPM_LIMIT:-180}" npm ci --prefer-offline --fetch-retries=1 --fetch-timeout=60000 2>&1) ||
    not_run "npm ci ended with $? (137: it took more than ${NPM_LIMIT:-180} s): $out"
  echo "$wanted" >"$dir/node_modules/.complete"
}

# node_program names the Node to use: the pinned one, or that of the machine where it is new enough.
node_program() {
  local pinned
  for pinned in "$dir"/node_modules/node-*/bin/node; do
    [ -x "$pinned" ] && echo "$pinned" && return
  done
  node -e 'process.exit(Number(process.versions.node.split(".")[0]) < 22 ? 1 : 0)' 2>/dev/null && command -v node
}

install
node=$(node_program) || not_run "Node 22 or later is needed on this platform"
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
go build -tags conformance -o "$bin/conformance" ./cmd/drawbridge
go build -o "$bin/drawbridge" ./cmd/drawbridge
"$node" "$dir/suite.mjs" "$bin/conformance" $write
"$node" "$dir/released.mjs" "$bin/drawbridge"
"$node" "$dir/clients.mjs" "$bin/drawbridge"
