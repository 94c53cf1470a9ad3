#!/usr/bin/env bash
# Makes a tree of files with a BuildKit of Debian trixie, that of its Docker Engine, for tests/docker/moby.py. Nothing of this
# machine changes. As root, a minute.
set -euo pipefail

place=${BENCHJOBS_BUILDKIT:-/var/tmp/benchjobs-buildkit}

give_up() { printf 'buildkit: %s\n' "$*" >&2; exit 1; }
[ ! -e "$place/usr/sbin/dockerd" ] || exit 0
[ "$(id -u)" = 0 ] || give_up "making a tree needs root"
for need in debootstrap:debian-archive-keyring socat:; do
    command -v "${need%:*}" >/dev/null 2>&1 || "$(dirname "$0")/apt.sh" ${need/:/ }
done
rm -rf "$place.new"
debootstrap --variant=minbase --include=docker.io,runc,containerd,iptables,ca-certificates trixie "$place.new" \
    ${BENCHJOBS_DEBIAN_MIRROR:+"$BENCHJOBS_DEBIAN_MIRROR"} >"$place.log" 2>&1 </dev/null ||
    { tail -n 10 "$place.log" >&2; give_up "debootstrap failed; the end of its log is above."; }
mv "$place.new" "$place"
printf 'buildkit: that of %s is in %s\n' "$(dpkg-query --admindir="$place/var/lib/dpkg" --show docker.io)" "$place"
