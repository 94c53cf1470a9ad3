#!/usr/bin/env bash
# Builds the sdist, and the wheel from the sdist, into DIR (default: dist), and checks what an index and pip would object to.
# Usage: dist.sh [DIR]     PYTHON is the interpreter of the development environment (default: .venv/bin/python)
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-.venv/bin/python}
dist=${1:-dist}
rm -f "$dist"/*.whl "$dist"/*.tar.gz
"$python" -m build --outdir "$dist" . >/dev/null
"$python" -m twine check --strict "$dist"/*
"$python" -m check_wheel_contents "$dist"/*.whl
