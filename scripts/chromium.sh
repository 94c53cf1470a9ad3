#!/usr/bin/env bash
# Makes sure Chromium is here, which tests of the viewer drive. Installs it on Debian, as root.
set -euo pipefail

give_up() { printf 'chromium: %s\n' "$*" >&2; exit 1; }

command -v chromium >/dev/null 2>&1 && exit
command -v apt-get >/dev/null 2>&1 || give_up "it is not installed, and this is not Debian: install it, and run this again."
printf 'chromium: it is not installed; installing it\n'
export DEBIAN_FRONTEND=noninteractive
apt-get update -q >/dev/null || give_up "apt-get update failed. Is the network there?"
apt-get install -qy --no-install-recommends chromium fonts-dejavu-core >/dev/null </dev/null ||
    give_up "apt-get install chromium failed. Install it by hand, and run this again."
