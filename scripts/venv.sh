#!/usr/bin/env bash
# Makes .venv with the project (editable) and its development tools. Called by make; does nothing when it is up to date.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'venv: %s\n' "$*"; }
give_up() { printf 'venv: %s\n' "$*" >&2; exit 1; }

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3.13 python3.12 python3.11 python3}; do
        if command -v "$candidate" >/dev/null 2>&1 &&
            "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    give_up "Python 3.11 or newer is needed, and none is on PATH. Install it, or name it: make PYTHON=/path/to/python3.12"
}

python=$(find_python)
stamp=.venv/.installed
if [ -f "$stamp" ] && [ ! pyproject.toml -nt "$stamp" ]; then
    exit 0
fi
if [ ! -x .venv/bin/python ]; then
    say "making .venv with $("$python" --version)"
    if ! "$python" -m venv .venv; then
        rm -rf .venv
        give_up "cannot make a virtual environment. On Debian and Ubuntu: apt-get install python3-venv"
    fi
fi
# Dependency groups need pip 25.1.
say "installing pytest-benchjobs and its development tools"
# -qq: errors only. Bytecode is made of what is imported, when it is: to compile everything takes longer than to install it.
pip=(.venv/bin/python -m pip install -qq --no-compile --disable-pip-version-check)
"${pip[@]}" --upgrade 'pip>=25.1'
"${pip[@]}" --editable . --group dev
touch "$stamp"
