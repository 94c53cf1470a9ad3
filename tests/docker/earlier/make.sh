#!/usr/bin/env bash
# Makes made.tar.xz: results of 053e17dc, the last commit that graded everything in the agent's container, and what it
# kept of trials of oracle: configuration and last layer of each image. As root, with an engine.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
home=/home/ci # paths of a machine are in results
old=$home/old project=$home/project
if [ -z "${NAMED:-}" ]; then
    rm -rf "$project"
    if [ ! -e "$old" ]; then
        git clone -q "$here/../../.." "$old" && git -C "$old" checkout -q 053e17dc && bash "$old/scripts/venv.sh"
    fi
    exec unshare --uts env -i NAMED=1 HOME=$home USER=ci TERM=dumb PATH="$old/.venv/bin:$PATH" bash "$here/make.sh"
fi
hostname ci
mkdir -p "$project" && cd "$project" && cp "$here/manifest.yaml" shop.bench.yaml
bench() { pytest shop.bench.yaml -q --tb=no -p no:cacheprovider "$@" || true; }
bench --bench-agent nop --bench-scenario plain --bench-scenario strict --bench-grading contract \
    --bench-job-name stopped --bench-concurrency 1 -x
bench --bench-agent oracle --bench-agent nop --bench-keep always --bench-job-name before
benchjobs baseline set before --name main
benchjobs baseline export job:before --to baseline.json
mkdir kept
for image in $(grep -rhoE 'benchjobs-kept:[0-9a-z-]+' reports/jobs/*/trials/oracle | sort -u); do
    name=kept/${image#*:}
    docker inspect --format '{{json .Config}}' "$image" > "$name.json"
    docker save "$image" | tar x -C kept
    layer=$(python -c 'import json; print(json.load(open("kept/manifest.json"))[0]["Layers"][-1])')
    mv "kept/$layer" "$name.tar"
    find kept -mindepth 1 ! -path "kept/$(date +%Y)*" -delete
done
benchjobs gc --kept
python - << 'END'
"""Drops what is left of this machine: the version of its kernel, and labels of its image."""
import json, pathlib, platform, sqlite3

for path in pathlib.Path("kept").glob("*.json"):
    conf = json.loads(path.read_text())
    conf["Labels"] = {name: value for name, value in conf["Labels"].items() if name.startswith("benchjobs.")}
    path.write_text(json.dumps(conf))
for path in [*pathlib.Path().rglob("*.json"), *pathlib.Path().rglob("*.xml")]:
    path.write_text(path.read_text().replace(platform.platform(), "Linux"))
with sqlite3.connect("reports/history.sqlite") as history:
    history.execute("UPDATE jobs SET record = replace(record, ?, 'Linux')", (platform.platform(),))
history.execute("PRAGMA journal_mode = DELETE")
history.execute("VACUUM")
END
tar cJ --sort=name --owner=0 --group=0 --exclude '*.lock' -f "$here/made.tar.xz" -- *
