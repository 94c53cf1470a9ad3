#!/usr/bin/env bash
# Makes sure Chromium is here, which tests of the viewer drive. Installs it on Debian, as root.
set -euo pipefail

give_up() { printf 'chromium: %s\n' "$*" >&2; exit 1; }

command -v chromium >/dev/null 2>&1 && exit
command -v apt-get >/dev/null 2>&1 || give_up "it is not installed, and this is not Debian: install it, and run this again."
printf 'chromium: it is not installed; installing it\n'
"$(dirname "$0")/apt.sh" chromium fonts-dejavu-core || give_up "it cannot be installed; why is above."
