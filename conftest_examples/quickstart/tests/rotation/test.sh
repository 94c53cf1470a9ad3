#!/bin/bash
# Four checks, reported as CTRF: the score is the share that passes. The script runs where the agent worked, and gets the
# directories there and back as data.
results=()

check() {
    local name=$1 expected=$2 directory=$3 status=passed
    [ "$(cd "$directory" && ls | tr '\n' ' ')" = "$expected" ] || status=failed
    results+=("{\"name\": \"$name\", \"status\": \"$status\", \"duration\": 0}")
    echo "$status: $name"
}

fill() {
    mkdir -p "$1"
    for day in 01 02 03 04; do touch "$1/backup-2026-01-$day.tar"; done
}

rotate() {
    bench-run --in "$base" --out "$base" -- sh rotate.sh "$@"
}

base=$(mktemp -d)
fill "$base/plain" && rotate "$base/plain" 2
check "keeps the newest two" "backup-2026-01-03.tar backup-2026-01-04.tar " "$base/plain"

fill "$base/all" && rotate "$base/all" 9
check "deletes nothing when there are fewer" \
    "backup-2026-01-01.tar backup-2026-01-02.tar backup-2026-01-03.tar backup-2026-01-04.tar " "$base/all"

fill "$base/with spaces" && rotate "$base/with spaces" 1
check "takes a directory with spaces" "backup-2026-01-04.tar " "$base/with spaces"

fill "$base/others" && touch "$base/others/notes.txt" "$base/others/backup-2026-01-05.tar.part"
rotate "$base/others" 1
check "leaves other files alone" "backup-2026-01-04.tar backup-2026-01-05.tar.part notes.txt " "$base/others"

list=$(IFS=,; echo "${results[*]}")
echo "{\"results\": {\"tool\": {\"name\": \"test.sh\"}, \"tests\": [$list]}}" > "$BENCH_CTRF"
