#!/usr/bin/env bash
# Installs packages on Debian and Ubuntu, as root; one call at a time, for others may install something meanwhile.
# Usage: apt.sh PACKAGE ...     Packages after `--if-known` are left out where the distribution has none of that name.
set -euo pipefail

lock=${TMPDIR:-/tmp}/benchjobs-apt.lock
lists=${TMPDIR:-/tmp}/benchjobs-apt.lists

exec 9>"$lock"
flock 9
export DEBIAN_FRONTEND=noninteractive
# Lists are read once an hour, or where an image of the distribution came without any.
if [ -z "$(find "$lists" -mmin -60 2>/dev/null)" ] || ! ls /var/lib/apt/lists/*Packages* >/dev/null 2>&1; then
    apt-get update -q >/dev/null || { echo "apt-get update failed. Is the network there?" >&2; exit 1; }
    touch "$lists"
fi
packages=()
optional=
for name in "$@"; do
    if [ "$name" = --if-known ]; then optional=yes
    elif [ -z "$optional" ] || apt-cache show "$name" >/dev/null 2>&1; then packages+=("$name")
    fi
done
apt-get install -qy --no-install-recommends -o DPkg::Lock::Timeout=300 "${packages[@]}" >/dev/null </dev/null 9>&- ||
    { echo "apt-get install ${packages[*]} failed. Install by hand, and run this again." >&2; exit 1; }
