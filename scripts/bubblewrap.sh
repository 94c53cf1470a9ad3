#!/usr/bin/env bash
# Makes sure bubblewrap is here, which sandboxes without Docker are made with. Installs it on Debian and Ubuntu, as root.
set -euo pipefail

give_up() { printf 'bubblewrap: %s\n' "$*" >&2; exit 1; }

command -v bwrap >/dev/null 2>&1 && exit
command -v apt-get >/dev/null 2>&1 || give_up "it is not installed, and this is not Debian or Ubuntu: install it, and run this again."
printf 'bubblewrap: it is not installed; installing it\n'
export DEBIAN_FRONTEND=noninteractive
apt-get update -q >/dev/null || give_up "apt-get update failed. Is the network there?"
apt-get install -qy --no-install-recommends bubblewrap >/dev/null </dev/null ||
    give_up "apt-get install bubblewrap failed. Install it by hand, and run this again."
