#!/usr/bin/env bash
# A real Kubernetes of three nodes on this machine, for tests/kubernetes. As root, on Debian with control groups v1.
#
#   scripts/k8s.sh build              make its programs, once: 10 minutes of two processors, from Debian's source package
#   scripts/k8s.sh start              build and start it, unless it is up; prints the path of a kubeconfig with all rights
#   scripts/k8s.sh stop               end it and all that is in it
#   scripts/k8s.sh status             say what is up; fails if the API server does not answer
#   scripts/k8s.sh run COMMAND ...    start it, run a command with BENCHJOBS_KUBECONFIG and BENCHJOBS_KUBE_REGISTRY, and stop it
#                                     if it was not up before. Where BENCHJOBS_KUBECONFIG names a cluster, the command has that one
#   scripts/k8s.sh load IMAGE ...     push images of this machine's engine into its registry; prints references for Pods
#   scripts/k8s.sh cut NODE           cut node1, node2 or node3 off the network
#   scripts/k8s.sh squeeze NODE       make a node believe that it is out of memory, so that it evicts its Pods
#   scripts/k8s.sh bar NODE           have its pulls from the registry fail
#   scripts/k8s.sh mend NODE          undo all three
#   scripts/k8s.sh restart-api [S]    SIGKILL the API server, and start it again after S seconds
#
# Each node is a network namespace with a Docker Engine and a kubelet; the control plane and a registry are in one called hub.
# There is no way out of them. Two ports lead in: 127.0.0.1:6443 to the API server and 127.0.0.1:5000 to the registry, and nodes
# have the registry at that address, too: a reference to an image is the same everywhere. Pods reach Pods of all nodes.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
place=${BENCHJOBS_K8S:-/var/tmp/benchjobs-k8s}
bin=$place/bin
run=$place/run
logs=$place/log
nodes=(1 2 3)
prefix=benchjobs
hub=$prefix-hub
hub_address=10.77.0.1
api=127.0.0.1:6443
registry=127.0.0.1:5000
base_image=debian:bookworm-slim
pause_image=benchjobs/pause:1
wait_seconds=180

say() { printf 'k8s: %s\n' "$*" >&2; }
give_up() { say "$@"; exit 1; }
kube() { "$bin/kubectl" --kubeconfig "$run/admin.kubeconfig" --cache-dir "$run/cache" --request-timeout=10s "$@"; }
engine_of() { local node=$1; shift; docker -H "unix://$run/node$node/run/docker.sock" "$@"; }
is_up() { [ -e "$run/admin.kubeconfig" ] && kube get --raw /readyz >/dev/null 2>&1; }
all_ready() { [ "$(kube get nodes --no-headers 2>/dev/null | grep -c ' Ready ')" = "${#nodes[@]}" ]; }
has_account() { kube get serviceaccount default >/dev/null 2>&1; }

# Waits until a command succeeds. Usage: await WHAT COMMAND ...
await() {
    local what=$1 deadline=$((SECONDS + wait_seconds))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$deadline" ] || give_up "$what: not within $wait_seconds s; see the logs in $logs"
        sleep 0.2
    done
}

# Runs a program in the background, with no more variables than it needs. Usage: launch LOG COMMAND ...
launch() {
    local log=$logs/$1.log
    shift
    setsid env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME="$run" "$@" >>"$log" 2>&1 </dev/null 9>&- &
}
in_hub() { local log=$1; shift; launch "$log" nsenter --net="/run/netns/$hub" "$@"; }

# The processes of a program in a namespace. Usage: pids NAMESPACE PROGRAM
pids() {
    local pid
    for pid in $(ip netns pids "$1" 2>/dev/null); do
        # The kernel keeps 15 characters of a name.
        [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != "${2:0:15}" ] || echo "$pid"
    done
}

# --- build -----------------------------------------------------------------------------------------------------------------

# Packages of bookworm, the last release with the source of a whole Kubernetes, whatever release this machine has.
fetch() {
    local uri key=/usr/share/keyrings/debian-archive-keyring.gpg options deb
    uri=${BENCHJOBS_DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI) $(COMPONENT)' 'Created-By: Packages' |
        awk '$1 ~ /\/debian\/?$/ && $2 == "main" {print $1; exit}')}
    [ -n "$uri" ] || give_up "this distribution has no mirror of Debian to get packages from."
    [ -f "$key" ] || key=
    mkdir -p lists/partial cache/archives/partial
    : >status
    printf '%s %s%s bookworm main\n' deb "${key:+[signed-by=$key] }" "$uri" deb-src "${key:+[signed-by=$key] }" "$uri" >sources.list
    options=(-q -o "Dir::Etc::sourcelist=$PWD/sources.list" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$PWD/lists"
        -o "Dir::State::status=$PWD/status" -o "Dir::Cache=$PWD/cache" -o APT::Sandbox::User=root -o Acquire::Languages=none)
    apt-get "${options[@]}" update
    apt-get "${options[@]}" download golang-1.19-go golang-1.19-src etcd-server docker-registry kubernetes-client
    apt-get "${options[@]}" source --download-only kubernetes
    for deb in ./*.deb; do dpkg-deb -x "$deb" unpacked; done
    tar xzf kubernetes_*.orig.tar.gz
}

compile() {
    local go=$PWD/unpacked/usr/lib/go-1.19
    cd kubernetes-1.20.2
    mkdir -p .go/src/k8s.io
    ln -s ../../.. .go/src/k8s.io/kubernetes
    gcc -Os -static -o ../pause build/pause/linux/pause.c
    nice env HOME="$PWD/.." GOROOT="$go" PATH="$go/bin:$PATH" GOPATH="$PWD/.go" GOCACHE="$PWD/../cache/go" GOFLAGS= CGO_ENABLED=0 \
        make WHAT="cmd/kube-apiserver cmd/kube-controller-manager cmd/kube-scheduler cmd/kubelet"
    cd ..
}

build() {
    [ ! -x "$bin/kubelet" ] || return 0
    command -v apt-get >/dev/null 2>&1 || give_up "it is not built, and this is not Debian."
    say "building Kubernetes 1.20.2 in $place: about 10 minutes; log $place/build.log"
    "$here/apt.sh" gcc libc6-dev make rsync jq
    rm -rf "$place/build"
    mkdir -p "$place/build" "$place/bin.new"
    (cd "$place/build" && fetch && compile) >"$place/build.log" 2>&1 </dev/null ||
        { tail -n 15 "$place/build.log" >&2; give_up "building failed; the end of its log is above."; }
    cp "$place"/build/{pause,unpacked/usr/bin/{etcd,docker-registry,kubectl}} "$place"/build/kubernetes-1.20.2/_output/bin/kube* "$place/bin.new"
    rm -rf "$place/build" "$bin"
    mv "$place/bin.new" "$bin"
    say "built: $bin"
}

# --- start -----------------------------------------------------------------------------------------------------------------

write_kubeconfig() {
    cat >"$run/$1.kubeconfig" <<YAML
apiVersion: v1
kind: Config
clusters: [{name: benchjobs, cluster: {server: "https://$3", certificate-authority-data: $(base64 -w0 "$run/api.crt")}}]
users: [{name: $1, user: {token: $2}}]
contexts: [{name: benchjobs, context: {cluster: benchjobs, user: $1}}]
current-context: benchjobs
YAML
}

write_configuration() {
    local admin benchjobs
    admin=$(openssl rand -hex 16)
    benchjobs=$(openssl rand -hex 16)
    openssl genrsa -out "$run/accounts.key" 2048 2>/dev/null
    openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=benchjobs -keyout "$run/api.key" -out "$run/api.crt" \
        -addext "subjectAltName=IP:127.0.0.1,IP:$hub_address,IP:10.96.0.1,DNS:kubernetes.default.svc" \
        -addext keyUsage=critical,digitalSignature,keyEncipherment,keyCertSign 2>/dev/null
    # The second user has no rights but those that somebody binds to it.
    printf '%s\n' "$admin,admin,1,system:masters" "$benchjobs,benchjobs,2" >"$run/tokens.csv"
    write_kubeconfig admin "$admin" "$api"
    write_kubeconfig benchjobs "$benchjobs" "$api"
    write_kubeconfig inner "$admin" "$hub_address:6443"
    # Names end at once: there is no server of names, and none is waited for.
    echo 'nameserver 127.0.0.1' >"$run/resolv.conf"
    cat >"$run/registry.yaml" <<YAML
version: 0.1
storage: {filesystem: {rootdirectory: $run/registry}, delete: {enabled: true}}
http: {addr: "$hub_address:5000"}
YAML
    cat >"$run/dockerd.json" <<JSON
{"runtimes": {"lab": {"path": "$run/runc"}}, "default-runtime": "lab", "iptables": false, "ip-masq": false}
JSON
    # The frequent leases make a lost node known within 12 s, and not sooner on a busy machine.
    cat >"$run/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
clusterDNS: [127.0.0.1]
clusterDomain: cluster.local
eventBurst: 100
eventRecordQPS: 50
evictionPressureTransitionPeriod: 5s
failSwapOn: false
imageGCHighThresholdPercent: 100
kubeAPIBurst: 100
kubeAPIQPS: 50
makeIPTablesUtilChains: false
maxPods: 110
nodeLeaseDurationSeconds: 8
nodeStatusReportFrequency: 4s
nodeStatusUpdateFrequency: 4s
serializeImagePulls: false
volumeStatsAggPeriod: 10s
YAML
    # Kubelets ask for negative scores, which take CAP_SYS_RESOURCE, and root on this machine may lack that.
    cat >"$run/runc" <<'SH'
#!/bin/sh
before=
for argument; do
    case $before in
        --bundle | -b) file=$argument/config.json ;;
        --process | -p) file=$argument ;;
        *) file= ;;
    esac
    [ ! -f "$file" ] || sed -i 's/"oomScoreAdj":-[0-9]*/"oomScoreAdj":0/' "$file"
    before=$argument
done
exec runc "$@"
SH
    chmod +x "$run/runc"
}

make_networks() {
    local node netns
    ip netns add "$hub"
    ip -n "$hub" link set lo up
    ip -n "$hub" link add br0 type bridge
    ip -n "$hub" addr add "$hub_address/24" dev br0
    ip -n "$hub" link set br0 up
    nsenter --net="/run/netns/$hub" sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
    for node in "${nodes[@]}"; do
        netns=$prefix-node$node
        ip netns add "$netns"
        ip -n "$netns" link set lo up
        ip -n "$hub" link add "node$node" type veth peer name eth0 netns "$netns"
        ip -n "$hub" link set "node$node" master br0 up
        ip -n "$netns" addr add "10.77.0.1$node/24" dev eth0
        ip -n "$netns" link set eth0 up
        ip -n "$netns" route add default via "$hub_address"
        ip -n "$hub" route add "172.30.$node.0/24" via "10.77.0.1$node"
    done
}

start_api() {
    in_hub apiserver "$bin/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 --advertise-address="$hub_address" \
        --bind-address="$hub_address" --secure-port=6443 --tls-cert-file="$run/api.crt" --tls-private-key-file="$run/api.key" \
        --token-auth-file="$run/tokens.csv" --authorization-mode=RBAC --service-cluster-ip-range=10.96.0.0/16 \
        --service-account-key-file="$run/accounts.key" --service-account-signing-key-file="$run/accounts.key" \
        --service-account-issuer=https://kubernetes.default --allow-privileged=true --kubelet-preferred-address-types=InternalIP
}

# From 127.0.0.1 of this machine into the hub, over a socket in the file system. Usage: forward NAME HERE
forward() {
    local port=${2#*:}
    in_hub "$1-in" socat "UNIX-LISTEN:$run/$1.sock,fork" "TCP:$hub_address:$port,nodelay"
    launch "$1-out" socat "TCP-LISTEN:$port,bind=${2%:*},fork,reuseaddr,nodelay" "UNIX-CONNECT:$run/$1.sock"
    echo $! >"$run/$1.pid"
}

start_control_plane() {
    # Nothing in it outlives the cluster, so it is kept in memory: a disk that others use would slow each call down.
    in_hub etcd unshare --mount --propagation private sh -c 'mount -t tmpfs etcd "$1" && exec "$2" --data-dir "$1/data" --log-level warn' \
        sh "$run/etcd" "$bin/etcd"
    start_api
    forward api "$api"
    in_hub registry "$bin/docker-registry" serve "$run/registry.yaml"
    forward registry "$registry"
    # It gives up on an API server that does not answer within 10 s.
    await "the API server" is_up
    in_hub controllers "$bin/kube-controller-manager" --kubeconfig="$run/inner.kubeconfig" --cert-dir="$run/controllers" \
        --flex-volume-plugin-dir="$run/controllers" --service-account-private-key-file="$run/accounts.key" --root-ca-file="$run/api.crt" --leader-elect=false \
        --node-monitor-grace-period=12s --node-monitor-period=2s --kube-api-qps=200 --kube-api-burst=400
    in_hub scheduler "$bin/kube-scheduler" --kubeconfig="$run/inner.kubeconfig" --leader-elect=false \
        --kube-api-qps=200 --kube-api-burst=400
}

# Its files are its own where an engine and a kubelet have theirs; so are the kernel's parameters that kubelets set for all.
start_engine() {
    local node=$1 netns=$prefix-node$1 own=$run/node$1 group
    mkdir -p "$own"/{lib,log,run,sys}
    echo 1 >"$own/sys/vm.overcommit_memory"
    echo 0 >"$own/sys/vm.panic_on_oom"
    echo 10 >"$own/sys/kernel.panic"
    echo 1 >"$own/sys/kernel.panic_on_oops"
    echo 1000000 >"$own/sys/kernel.keys.root_maxkeys"
    echo 25000000 >"$own/sys/kernel.keys.root_maxbytes"
    for group in /sys/fs/cgroup/*/tasks; do mkdir -p "${group%/tasks}/$netns"; done
    for group in cpus mems; do
        cat "/sys/fs/cgroup/cpuset/cpuset.$group" >"/sys/fs/cgroup/cpuset/$netns/cpuset.$group"
    done
    # `ip netns exec` would mount /sys anew, without control groups.
    launch "node$node-engine" nsenter --net="/run/netns/$netns" unshare --uts --mount --propagation private bash -ec '
        hostname "$1"
        mount --bind "$2/../resolv.conf" /etc/resolv.conf
        for file in "$2"/sys/*; do name=${file##*/}; mount --bind "$file" "/proc/sys/${name//.//}"; done
        mount --bind "$2/lib" /var/lib
        mount --bind "$2/log" /var/log
        mount --bind "$2/run" /run
        exec dockerd --config-file "$2/../dockerd.json" --bip "$3" --cgroup-parent "$4"
    ' bash "node$node" "$own" "172.30.$node.1/24" "/$netns"
    launch "node$node-registry" nsenter --net="/run/netns/$netns" \
        socat "TCP-LISTEN:${registry#*:},bind=${registry%:*},fork,reuseaddr,nodelay" "TCP:$hub_address:${registry#*:},nodelay"
    await "the engine of node$node" engine_of "$node" version
    tar -c -C "$bin" pause | engine_of "$node" import -c 'ENTRYPOINT ["/pause"]' - "$pause_image" >/dev/null
    docker save "$base_image" | engine_of "$node" load -q >/dev/null
}

# Usage: start_kubelet NODE [OPTION ...]
start_kubelet() {
    local node=$1 netns=$prefix-node$1
    shift
    launch "node$node-kubelet" nsenter -t "$(pids "$netns" dockerd | head -n 1)" --net --mount --uts \
        "$bin/kubelet" --kubeconfig="$run/inner.kubeconfig" --config="$run/kubelet.yaml" --node-ip="10.77.0.1$node" --address="10.77.0.1$node" \
        --cgroup-root="/$netns" --pod-infra-container-image="$pause_image" --volume-plugin-dir=/var/lib/kubelet/volume-plugins \
        --eviction-hard= "$@"
}

start() (
    waiting=()
    [ "$(id -u)" = 0 ] || give_up "starting it needs root"
    [ -e /sys/fs/cgroup/memory/tasks ] || give_up "this Kubernetes needs control groups v1, which this machine does not have."
    mkdir -p "$place"
    # Whoever starts it meanwhile finds it up. What goes on running must not hold the lock.
    exec 9>"$place/lock"
    flock 9
    if is_up; then
        say "it is up"
        echo "$run/admin.kubeconfig"
        exit
    fi
    build 9>&-
    stop
    "$here/engine.sh" >&2 9>&-
    "$here/images.sh" "$base_image" >&2 9>&-
    type ip socat openssl >/dev/null 2>&1 || "$here/apt.sh" iproute2 socat openssl
    for node in "$api" "$registry"; do
        ! (exec 3<>"/dev/tcp/${node%:*}/${node#*:}") 2>/dev/null || give_up "something else listens at $node"
    done
    rm -rf "$logs"
    (umask 077 && mkdir -p "$logs" "$run"/{etcd,registry} && write_configuration)
    make_networks
    for node in "${nodes[@]}"; do
        start_engine "$node" &
        waiting+=($!)
    done
    start_control_plane
    for node in "${waiting[@]}"; do wait "$node"; done
    for node in "${nodes[@]}"; do start_kubelet "$node"; done
    await "the nodes" all_ready
    await "the service account of Pods" has_account
    say "started ${#nodes[@]} nodes; the registry is $registry. Stop them with: scripts/k8s.sh stop"
    echo "$run/admin.kubeconfig"
)

# --- stop ------------------------------------------------------------------------------------------------------------------

# Processes in the cluster's namespaces and control groups, where those of containers are, and the two ways in.
processes() {
    local name pid
    for name in "$hub" "${nodes[@]/#/$prefix-node}"; do ip netns pids "$name" 2>/dev/null || true; done
    find /sys/fs/cgroup/*/"$prefix"-node[0-9] -name cgroup.procs -exec cat {} + 2>/dev/null || true
    for name in api registry; do
        pid=$(cat "$run/$name.pid" 2>/dev/null || true)
        if [ -n "$pid" ] && grep -qaF "$run/$name.sock" "/proc/$pid/cmdline" 2>/dev/null; then ps -o pid= -g "$pid"; fi
    done
}

stop() {
    local found name deadline=$((SECONDS + wait_seconds)) was=
    [ "$(id -u)" = 0 ] || give_up "stopping it needs root"
    while found=$(processes | sort -un) && [ -n "$found" ]; do
        was=yes
        [ "$SECONDS" -lt "$deadline" ] || give_up "these processes do not end: ${found//$'\n'/ }"
        # Nothing is kept, so nothing needs an orderly end. Some are gone by now.
        # shellcheck disable=SC2086  # several words
        kill -KILL $found 2>/dev/null || true
        sleep 0.2
    done
    for name in "$hub" "${nodes[@]/#/$prefix-node}"; do
        [ ! -e "/run/netns/$name" ] || ip netns del "$name"
    done
    find /sys/fs/cgroup/*/"$prefix"-node[0-9] -depth -type d -exec rmdir {} + 2>/dev/null || true
    rm -rf --one-file-system "$run"
    [ -z "$was" ] || say "stopped"
}

# --- faults, images and the rest ---------------------------------------------------------------------------------------------

node_of() {
    [[ ${1:-} =~ ^node([1-3])$ ]] || give_up "which node? node1, node2 or node3"
    echo "${BASH_REMATCH[1]}"
}

# Usage: restart_kubelet NODE [OPTION ...]
restart_kubelet() {
    local netns=$prefix-node$1
    pids "$netns" kubelet | xargs -r kill -KILL
    while [ -n "$(pids "$netns" kubelet)" ]; do sleep 0.1; done
    start_kubelet "$@"
}

squeeze() {
    local node
    node=$(node_of "$@")
    restart_kubelet "$node" --eviction-soft='memory.available<99%' --eviction-soft-grace-period=memory.available=1s \
        --eviction-max-pod-grace-period=1
}

# Usage: registry_gate -I|-D NODE
registry_gate() {
    ip netns exec "$prefix-node$2" iptables "$1" OUTPUT -p tcp -d "${registry%:*}" --dport "${registry#*:}" -j REJECT --reject-with tcp-reset
}

bar() {
    local node
    node=$(node_of "$@")
    registry_gate -I "$node"
}

mend() {
    local node
    node=$(node_of "$@")
    while registry_gate -D "$node" 2>/dev/null; do :; done
    ip -n "$hub" link set "node$node" up
    if grep -qz eviction-soft "/proc/$(pids "$prefix-node$node" kubelet)/cmdline" 2>/dev/null; then restart_kubelet "$node"; fi
}

restart_api() {
    pids "$hub" kube-apiserver | xargs -r kill -KILL
    sleep "${1:-0}"
    start_api
    await "the API server" is_up
}

load() {
    local image name
    for image; do
        name=$registry/${image%%@*}
        docker tag "$image" "$name"
        docker push -q "$name" >/dev/null
        docker image inspect "$name" --format '{{range .RepoDigests}}{{println .}}{{end}}' | grep -F "$registry/" | tail -n 1
        docker rmi "$name" >/dev/null
    done
}

status() {
    is_up || give_up "it is not up"
    say "kubeconfigs: $run/admin.kubeconfig, and $run/benchjobs.kubeconfig without any rights; registry: $registry"
    kube get nodes -o wide
}

run() {
    [ -z "${BENCHJOBS_KUBECONFIG:-}" ] || exec "$@"
    is_up || trap stop EXIT
    start >/dev/null
    BENCHJOBS_KUBECONFIG=$run/admin.kubeconfig BENCHJOBS_KUBE_REGISTRY=$registry "$@"
}

command=${1:-}
[ $# = 0 ] || shift
case $command in
    build | start | stop | status | run | load | squeeze | bar | mend) "$command" "$@" ;;
    cut) node=$(node_of "$@") && ip -n "$hub" link set "node$node" down ;;
    restart-api) restart_api "$@" ;;
    *) give_up "usage: scripts/k8s.sh build|start|stop|status|run COMMAND|load IMAGE|cut NODE|squeeze NODE|bar NODE|mend NODE|restart-api [SECONDS]" ;;
esac
