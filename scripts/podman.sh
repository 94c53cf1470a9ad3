#!/usr/bin/env bash
# Makes a tree of files with Podman of a Debian release, for tests/docker/podman.py. Nothing of this machine changes.
#
#   scripts/podman.sh [bookworm|trixie ...]     Podman 4.3 and 5.4; as root, a minute each
set -euo pipefail

place=${BENCHJOBS_PODMAN:-/var/tmp/benchjobs-podman}
packages=podman,conmon,runc,netavark,aardvark-dns,uidmap,slirp4netns,passt,catatonit,iptables,nftables,iproute2,ca-certificates

give_up() { printf 'podman: %s\n' "$*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || give_up "making a tree needs root"
command -v debootstrap >/dev/null 2>&1 || "$(dirname "$0")/apt.sh" debootstrap debian-archive-keyring

for suite in "${@:-trixie}"; do
    [ ! -e "$place/$suite/usr/bin/podman" ] || continue
    rm -rf "$place/$suite.new"
    mkdir -p "$place"
    debootstrap --variant=minbase --include="$packages" "$suite" "$place/$suite.new" ${BENCHJOBS_DEBIAN_MIRROR:+"$BENCHJOBS_DEBIAN_MIRROR"} \
        >"$place/$suite.log" 2>&1 </dev/null || { tail -n 10 "$place/$suite.log" >&2; give_up "debootstrap of $suite failed; the end of its log is above."; }
    mv "$place/$suite.new" "$place/$suite"
    printf 'podman: %s is in %s\n' "$(dpkg-query --admindir="$place/$suite/var/lib/dpkg" --show podman)" "$place/$suite"
done
