#!/usr/bin/env bash
# Makes sure a plugin of Docker's command line is here for the tests, and says where: the machine's own, or one unpacked from
# the distribution's package into a cache of this project (Debian and Ubuntu). Nothing is installed into the system.
#
#   scripts/plugin.sh compose|buildx          get it
#   scripts/plugin.sh compose|buildx where    print the directory for DOCKER_CONFIG that has it in its cli-plugins
set -euo pipefail

say() { printf '%s: %s\n' "$name" "$*"; }
give_up() { say "$@" >&2; exit 1; }

name=${1:-plugin}
case $name in
    compose)
        packages=(docker-compose-plugin docker-compose-v2 docker-compose)
        # The first version that services of trials work with, and the first of Debian's packages that is no other program.
        recent='^v?([3-9]|2\.([2-9][0-9]|[1-9][0-9]{2}))'
        candidate='([0-9]+:)?([2-9]|[1-9][0-9])\.'
        asked=(version --short)
        ;;
    buildx)
        packages=(docker-buildx-plugin docker-buildx)
        recent=buildx
        candidate='[0-9]'
        asked=(version)
        ;;
    *) give_up "usage: scripts/plugin.sh compose|buildx [where]" ;;
esac
cache=${XDG_CACHE_HOME:-$HOME/.cache}/benchjobs-tests/$name
plugin=$cache/cli-plugins/docker-$name
# The first suite of Debian that has a package.
debian_suite=trixie

case ${2:-} in
    where) echo "$cache"; exit ;;
    '') ;;
    *) give_up "unknown command $2: where, or nothing" ;;
esac

works() { timeout 20 "$@" "${asked[@]}" 2>/dev/null | grep -Eq "$recent"; }
if works docker "$name"; then say "the machine's own: $(docker "$name" "${asked[@]}")"; exit; fi
if works "$plugin"; then say "$plugin, $("$plugin" "${asked[@]}")"; exit; fi
command -v apt-get >/dev/null 2>&1 && command -v dpkg-deb >/dev/null 2>&1 ||
    give_up "it is not installed, and this is not Debian or Ubuntu: install it, and run this again."

mkdir -p "$cache"
work=$(mktemp -d "$cache/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
cd "$work"
package=
for one in "${packages[@]}"; do
    if apt-cache policy "$one" 2>/dev/null | grep -Eq "Candidate: $candidate"; then package=$one; break; fi
done
options=()
if [ -z "$package" ]; then
    # A later suite of the same mirror, with lists and state of its own.
    uri=$(apt-get indextargets --format '$(REPO_URI) $(COMPONENT)' 'Created-By: Packages' |
        awk '$1 ~ /\/debian\/?$/ && $2 == "main" {print $1; exit}')
    [ -n "$uri" ] || give_up "the package of this distribution is too old, and it has no mirror of Debian to get a later one from."
    key=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -f "$key" ] || key=
    mkdir -p lists/partial cache/archives/partial
    : >status
    printf 'deb %s%s %s main\n' "${key:+[signed-by=$key] }" "$uri" "$debian_suite" >sources.list
    options=(-o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$work/lists"
        -o "Dir::State::status=$work/status" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root -o Acquire::Languages=none)
    apt-get "${options[@]}" update -q >log 2>&1 || { tail -n 5 log >&2; give_up "the lists of $debian_suite cannot be read."; }
    package=docker-$name
fi
apt-get "${options[@]}" download -q "$package" >log 2>&1 || { tail -n 5 log >&2; give_up "$package cannot be downloaded."; }
dpkg-deb -x ./*.deb unpacked
found=$(find unpacked -type f -name "docker-$name" -perm -u+x | head -n 1)
[ -n "$found" ] || give_up "$package has no program docker-$name."
mkdir -p "$cache/cli-plugins"
mv "$found" "$plugin.new"
mv "$plugin.new" "$plugin"
works "$plugin" || give_up "$plugin does not run."
say "unpacked $package into $cache: $("$plugin" "${asked[@]}")"
