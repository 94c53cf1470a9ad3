#!/usr/bin/env bash
# What `make test` runs, side by side: lint and the site beside the tests, and beside what sets the machine up.
# Usage: test.sh [MATRIX]     MATRIX: environments of scripts/matrix.py to run as well, such as "--quick oldest"
#
# WORKERS is the number of workers of pytest-xdist: by default three for each processor, as most tests wait for processes
# and containers. tests/scheduling.py says which of them runs what.
set -euo pipefail
cd "$(dirname "$0")/.."

workers=${WORKERS:-$((3 * $(getconf _NPROCESSORS_ONLN)))}
python=.venv/bin/python
logs=$(mktemp -d)
# A `kill` of nothing fails, and what fails in a trap becomes the status of the script.
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$logs"' EXIT
names=()
began=$SECONDS

say() { printf 'test: %s\n' "$*"; }
# Runs a part in the background. Its output is shown when it has ended.
beside() {
    local name=$1
    shift
    ("$@" >"$logs/$name" 2>&1 </dev/null && echo 0 >"$logs/$name.status" || echo 1 >"$logs/$name.status") &
    names+=("$name")
    printf -v "pid_$name" %s $!
}
# Waits for a part, shows what it printed, and fails as it did.
ended() {
    local pid=pid_$1
    wait "${!pid}"
    if [ -s "$logs/$1" ]; then sed "s/^/$1: /" "$logs/$1"; fi
    [ "$(cat "$logs/$1.status")" = 0 ] || { say "$1 FAILED"; return 1; }
}

lint() {
    "$python" -m ruff check && "$python" -m ruff format --check && "$python" -m mypy && .venv/bin/lint-imports
}

beside engine scripts/engine.sh
scripts/venv.sh
beside lint lint
beside site "$python" -m mkdocs build --strict -q
if [ -n "${1:-}" ]; then
    # shellcheck disable=SC2086  # several words
    beside matrix "$python" scripts/matrix.py $1
fi
# While the machine is set up: bytecode of all tests. Each worker would rewrite their asserts anew.
"$python" -m pytest tests --collect-only -qq -p no:cacheprovider >/dev/null 2>&1 </dev/null &
collect=$!
ended engine
beside images scripts/images.sh
# Tests of services, and of the other builder, are skipped without them, and say so.
beside compose sh -c 'scripts/plugin.sh compose || true'
beside buildx sh -c 'scripts/plugin.sh buildx || true'
beside bubblewrap scripts/bubblewrap.sh
beside chromium scripts/chromium.sh
for name in images compose buildx bubblewrap chromium; do ended "$name"; done
{ kill "$collect" && wait "$collect"; } 2>/dev/null || true
say "the machine is ready after $((SECONDS - began)) s"

status=0
"$python" -m pytest -q tests -n "$workers" -m "not extended" --durations=15 --durations-min=15 || status=1
for name in "${names[@]}"; do
    case $name in
        lint | site | matrix) ended "$name" || status=1 ;;
    esac
done
say "$([ "$status" = 0 ] && echo passed || echo FAILED) after $((SECONDS - began)) s"
exit "$status"
