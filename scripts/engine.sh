#!/usr/bin/env bash
# Makes sure a Docker Engine answers, and says what it did.
#
#   scripts/engine.sh         start one if none answers (Debian and Ubuntu, as root; elsewhere: says what to do)
#   scripts/engine.sh stop    stop the engine that this script started; any other is left alone
set -euo pipefail

state=${BENCHJOBS_ENGINE_STATE:-/var/tmp/benchjobs-engine}
pidfile=$state/dockerd.pid
log=$state/dockerd.log
wait_seconds=60

say() { printf 'engine: %s\n' "$*"; }
give_up() { printf 'engine: %s\n' "$*" >&2; exit 1; }
answers() { command -v docker >/dev/null 2>&1 && timeout 15 docker version --format '{{.Server.Version}}' 2>/dev/null | grep -q .; }
is_dockerd() { [ "$(cat "/proc/$1/comm" 2>/dev/null)" = dockerd ]; }

install_engine() {
    command -v dockerd >/dev/null 2>&1 && command -v docker >/dev/null 2>&1 && return
    command -v apt-get >/dev/null 2>&1 ||
        give_up "no Docker Engine answers, and this is not Debian or Ubuntu: install Docker, start it, and run this again."
    say "no engine is installed; installing the distribution's own (docker.io, iptables)"
    # The client is a package of its own in newer releases.
    "$(dirname "$0")/apt.sh" docker.io iptables --if-known docker-cli ||
        give_up "it cannot be installed; why is above. Install Docker by hand, start it, and run this again."
    # Installing may have started it.
}

start_engine() {
    mkdir -p "$state"
    # A machine that was switched off leaves the engine's own pid file behind, and the pid may be somebody else's by now.
    local stale
    stale=$(cat /var/run/docker.pid 2>/dev/null || true)
    if [ -n "$stale" ] && ! is_dockerd "$stale"; then rm -f /var/run/docker.pid; fi
    setsid dockerd </dev/null >"$log" 2>&1 &
    local pid=$!
    echo "$pid" >"$pidfile"
    local deadline=$((SECONDS + wait_seconds))
    until answers; do
        if [ "$SECONDS" -ge "$deadline" ] || ! kill -0 "$pid" 2>/dev/null; then
            tail -n 15 "$log" >&2
            kill "$pid" 2>/dev/null || true
            rm -f "$pidfile"
            give_up "dockerd did not come up; the end of its log ($log) is above."
        fi
        sleep 0.2
    done
    say "started dockerd (pid $pid, log $log). Stop it with: scripts/engine.sh stop"
}

stop_engine() {
    local pid
    pid=$(cat "$pidfile" 2>/dev/null || true)
    rm -f "$pidfile"
    if [ -z "$pid" ] || ! is_dockerd "$pid"; then
        say "nothing to stop: this script has no engine running"
        return
    fi
    kill "$pid"
    for _ in $(seq 150); do
        kill -0 "$pid" 2>/dev/null || { say "stopped dockerd (pid $pid)"; return; }
        sleep 0.2
    done
    give_up "dockerd (pid $pid) does not end; see $log"
}

case ${1:-start} in
    start)
        if answers; then
            say "Docker Engine $(docker version --format '{{.Server.Version}}') answers"
            exit 0
        fi
        if [ -n "${DOCKER_HOST:-}" ]; then
            give_up "the engine at DOCKER_HOST=$DOCKER_HOST does not answer: start it, or unset DOCKER_HOST."
        fi
        if [ "$(id -u)" != 0 ]; then
            give_up "no Docker Engine answers. Start Docker (or let this user reach it), or run this as root on Debian or Ubuntu."
        fi
        install_engine
        if answers; then
            say "Docker Engine $(docker version --format '{{.Server.Version}}') answers"
        else
            start_engine
        fi
        ;;
    stop) stop_engine ;;
    *) give_up "usage: scripts/engine.sh [start|stop]" ;;
esac
