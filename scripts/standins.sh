#!/usr/bin/env bash
# Builds the stand-in base images which Terminal-Bench 2.0 tasks need where no registry answers, and prints the options
# that use them. Where the real images can be had, nothing is built: use those.
set -euo pipefail
cd "$(dirname "$0")/.."

python=.venv/bin/python
[ -x "$python" ] || python=python3
say() { printf 'stand-ins: %s\n' "$*" >&2; }

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT

build() {
    local original=$1 packages=$2 image=benchjobs-standin/$1
    if docker image inspect "$original" >/dev/null 2>&1; then
        say "$original is there; no stand-in needed"
        return
    fi
    if docker image inspect "$image" >/dev/null 2>&1; then
        say "$image is there"
    else
        if [ ! -d "$context/wheels" ]; then
            cp scripts/standins/* "$context/"
            # The graders ask for these, and containers may not reach the package index.
            "$python" -m pip download -qq --disable-pip-version-check --only-binary :all: --python-version 3.11 \
                --dest "$context/wheels" pytest==8.4.1 pytest-json-ctrf==0.3.5
        fi
        docker build --quiet --build-arg "PACKAGES=$packages" --tag "$image" "$context" >"$context/log" 2>&1 ||
            { tail -n 15 "$context/log" >&2; say "$image did not build; the end of the log is above"; exit 1; }
        say "built $image: Debian bookworm under another name, not the published image"
    fi
    printf -- '--bench-image-map %s=%s\n' "$original" "$image"
}

build ubuntu:24.04 "python3 python3-venv"
build python:3.13-slim-bookworm "python3 python3-venv python3-pip"
