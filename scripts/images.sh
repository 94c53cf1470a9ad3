#!/usr/bin/env bash
# Makes sure the base images of the demo and the tests are there, and says where each came from.
#
# Present: nothing is done. Else pulled, when a registry answers. Else, for Debian images, made on this machine with
# debootstrap from the distribution's own packages and tagged with the same name: a stand-in, and labelled as one.
set -euo pipefail

images=("${@:-debian:bookworm-slim}")
pull_seconds=${BENCHJOBS_PULL_TIMEOUT:-120}

say() { printf 'images: %s\n' "$*"; }
give_up() { printf 'images: %s\n' "$*" >&2; exit 1; }

# Packages only: no manuals, no translations, no downloaded lists, as in the slim images of the registry.
debootstrap_image() {
    local image=$1 suite=$2 root
    [ "$(id -u)" = 0 ] || give_up "$image cannot be pulled, and making a stand-in needs root. Run this as root, or load the image with docker load."
    if ! command -v debootstrap >/dev/null 2>&1; then
        command -v apt-get >/dev/null 2>&1 ||
            give_up "$image cannot be pulled, and a stand-in needs debootstrap. Install it, or load the image with docker load."
        say "installing debootstrap to make a stand-in for $image"
        "$(dirname "$0")/apt.sh" debootstrap debian-archive-keyring ||
            give_up "debootstrap cannot be installed; why is above."
    fi
    root=$(mktemp -d)
    # shellcheck disable=SC2064  # expand now: the directory is known
    trap "rm -rf '$root'" EXIT
    # A mirror only when asked for: debootstrap knows the distribution's own.
    debootstrap --variant=minbase --include=ca-certificates "$suite" "$root/system" ${BENCHJOBS_DEBIAN_MIRROR:+"$BENCHJOBS_DEBIAN_MIRROR"} \
        >"$root/log" 2>&1 </dev/null || { tail -n 10 "$root/log" >&2; give_up "debootstrap of $suite failed; the end of its log is above."; }
    rm -rf "$root"/system/var/cache/apt/* "$root"/system/var/lib/apt/lists/* "$root"/system/usr/share/{doc,man,info,locale}/*
    find "$root/system/var/log" -type f -delete
    tar -C "$root/system" --numeric-owner -c . | docker import \
        -c 'CMD ["bash"]' -c "LABEL stand-in=debootstrap-$suite" - "$image" >/dev/null
    rm -rf "$root"
    trap - EXIT
    say "$image: no registry answers, so it was made on this machine with debootstrap: a stand-in, not the published image"
}

for image in "${images[@]}"; do
    if docker image inspect "$image" >/dev/null 2>&1; then
        say "$image is there$(docker image inspect "$image" --format '{{with index .Config.Labels "stand-in"}} (a stand-in: {{.}}){{end}}')"
    elif timeout "$pull_seconds" docker pull -q "$image" >/dev/null 2>&1; then
        say "$image was pulled"
    else
        case $image in
            debian:*-slim) debootstrap_image "$image" "$(sed 's/^debian://; s/-slim$//' <<<"$image")" ;;
            *) give_up "$image is not there and cannot be pulled. Load it with docker load, or map it to another with --bench-image-map." ;;
        esac
    fi
done
