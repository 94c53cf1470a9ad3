#!/usr/bin/env bash
# Makes sure bubblewrap is here, which sandboxes without Docker are made with. Installs it on Debian and Ubuntu, as root.
set -euo pipefail

give_up() { printf 'bubblewrap: %s\n' "$*" >&2; exit 1; }

command -v bwrap >/dev/null 2>&1 && exit
command -v apt-get >/dev/null 2>&1 || give_up "it is not installed, and this is not Debian or Ubuntu: install it, and run this again."
printf 'bubblewrap: it is not installed; installing it\n'
"$(dirname "$0")/apt.sh" bubblewrap || give_up "it cannot be installed; why is above."
