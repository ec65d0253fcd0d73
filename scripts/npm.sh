# Functions that put packages from the npm registry into a folder, as their lock files pin them and without their install scripts. A script that
# reads this has set: what (how it calls itself) and cache (the folder).

# not_run says why nothing was run, and ends.
not_run() {
  echo "$what: NOT RUN: $1" >&2
  exit 1
}

# install PINS NAME puts one package into the cache, unless this very one is there.
install() {
  local pins=$1 name=$2 dir=$cache/$2 wanted out
  wanted=$(cksum <"$pins/$name/package-lock.json")
  [ "$(cat "$dir/.complete" 2>/dev/null)" = "$wanted" ] && return
  command -v npm >/dev/null 2>&1 || not_run "npm is not installed"
  echo "$what: installing $(grep -oE '"[^"]+": "[0-9][^"]*"' "$pins/$name/package.json" | tr -d '"' | tr -d ' ' | tr ':' '@' | paste -sd, | sed 's|,|, |g') from npm (up to 400 MB on the disk)"
  rm -rf "$dir" && mkdir -p "$dir" && cp "$pins/$name"/package*.json "$dir"
  out=$(cd "$dir" && timeout -k 5 "${NPM_LIMIT:-300}" npm ci --ignore-scripts --prefer-offline --fetch-retries=1 --fetch-timeout=60000 2>&1) ||
    not_run "npm ci ended with $? (137: it took more than ${NPM_LIMIT:-300} s): $out"
  echo "$wanted" >"$dir/.complete"
}
