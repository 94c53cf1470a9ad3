"""`-o json`: every command prints a document that obeys its schema, and nothing else on stdout."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click
import pytest

from pytest_benchjobs.cli._commands import benchjobs
from pytest_benchjobs.cli._output import OutputOption
from tests.schemas import obeys

from .conftest import Bench

pytestmark = pytest.mark.usefixtures("own_temporary_files")

NO_DOCUMENT = {"schema", "serve", "shell"}
"""Commands that print JSON anyhow, or serve people."""
CALLS = """
run --benchmark toy --agent oracle --dir other
run --benchmark toy --agent oracle
rerun last --keep always
rescore last
clone last~1 --agent nop
resume last
plan --benchmark toy --agent nop
check toy.bench.yaml
ab --benchmark toy --a nop --b oracle
calibrate
list
runs
watch last
cancel last
summary last
show toy::solved[oracle]
logs last
compare last~1 last
view-comparison last
export last --out trials.csv
export-viewer-data
baseline set last --force
baseline list
baseline show
baseline export
baseline accept last --reason better --force
baseline delete default
gate last
init new --ci gitlab
doctor
benchmarks list
benchmarks files toy.bench.yaml
benchmarks show swe-bench-verified
benchmarks fetch replay-scoring-sample
benchmarks exceptions swe-bench-verified
benchmarks images toy
benchmarks check toy.bench.yaml
agents list
agents show mine
agents fetch mine
secret set KEY
secret list
secret delete KEY
scenario list toy.bench.yaml
scenario show toy.bench.yaml::solved
scenario validate toy.bench.yaml --schema-only
scenario new added --in toy.bench.yaml
scenario import tasks --to harbor.bench.yaml
merge other
recover
rm last
gc
db rebuild
"""


def leaves(command: click.Command, *path: str) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from leaves(inner, *path, name)


def test_every_command_prints_a_document_that_obeys_its_schema(bench: Bench) -> None:
    bench.toy()
    bench.task("tasks/one")
    bench.write("mine.agent.toml", 'name = "mine"\nargv = ["true"]\n')
    documents = {
        name: [option.document for option in command.params if isinstance(option, OutputOption)]
        for name, command in leaves(benchjobs)
    }
    assert {name for name, document in documents.items() if not document} == NO_DOCUMENT
    calls = [
        (next(name for name in documents if f"{line} ".startswith(f"{name} ")), line)
        for line in CALLS.strip().splitlines()
    ]
    assert documents.keys() - {name for name, _ in calls} == NO_DOCUMENT
    wrong = {}
    for name, line in calls:
        done = bench.benchjobs(*line.split(), "-o", "json", stdin="value\n", HOME=str(bench.path))
        try:
            obeys(json.loads(done.stdout), documents[name][0])
        except Exception as error:
            wrong[line] = f"{done.returncode} {error}"[:300], done.stderr[-300:]
    assert not wrong, json.dumps(wrong, indent=1)
