#!/bin/bash
set -euo pipefail
# `sort -V` puts a tilde before the end of a name, as Debian does.
sed 's/-/~/' /app/versions.txt | sort -Vu | sed 's/~/-/' > /app/sorted.txt
