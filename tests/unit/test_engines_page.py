"""docs/engines.md shows what sandboxes promise, and the tables by which answers of an engine are judged."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import yaml

from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.sandbox.bubblewrap.provider import LocalProvider
from pytest_benchjobs.sandbox.docker.answers import CALLS, SIGNAL, TRIES, Call, State
from pytest_benchjobs.sandbox.docker.dialects import DOCKER, PODMAN
from pytest_benchjobs.sandbox.docker.resources import lacking
from pytest_benchjobs.sandbox.docker.words import TABLE
from pytest_benchjobs.sandbox.kubernetes.provider import KubernetesProvider
from pytest_benchjobs.sandbox.protocol import Promise
from pytest_benchjobs.testing import FakeProvider

_ABLE = dict.fromkeys(("MemoryLimit", "CpuCfsQuota", "PidsLimit"), True)
"""What an engine says of itself that can limit everything."""
PAGE = Path(__file__).parents[2] / "docs" / "engines.md"


def test_the_page_has_every_call_and_every_sentence() -> None:
    page = PAGE.read_text("utf-8")
    for name, rows in (("promises", _promises()), ("calls", _calls()), ("words", _words())):
        begin = re.search(rf"<!-- {name}: .* -->\n", page)
        assert begin is not None
        end = page.index(f"<!-- /{name} -->")
        page = page[: begin.end()] + "\n" + "\n".join(rows) + "\n\n" + page[end:]
    if os.environ.get("BENCHJOBS_WRITE_TABLES") == "1":
        PAGE.write_text(page, "utf-8")
    assert PAGE.read_text("utf-8") == page, "run with BENCHJOBS_WRITE_TABLES=1 to write it"


def test_what_it_shows_of_jobs_in_pods_can_be_read() -> None:
    shown = [
        yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    ]
    controller, gitlab = shown
    assert controller["containerMode"] == {"type": "dind"}
    assert gitlab["benchmarks"]["variables"]["DOCKER_HOST"].startswith("tcp://")


def _promises() -> Iterable[str]:
    lacks = {
        "Docker as root": lacking(_ABLE, DOCKER),
        "Docker as root, gVisor": lacking(_ABLE, DOCKER, "runsc"),
        "Podman as root": lacking(_ABLE, PODMAN),
        "rootless Podman, cgroups v1": lacking({"Rootless": True, "CgroupVersion": "1"}, PODMAN),
        "`kubernetes`": KubernetesProvider(current_owner()).lacks(),
        "`local`": LocalProvider(current_owner()).lacks(),
        "`fake`": FakeProvider(current_owner()).lacks(),
    }
    yield f"| promise | {' | '.join(lacks)} |"
    yield "|---" * (len(lacks) + 1) + "|"
    for promise in Promise:
        reasons = (one.get(promise) for one in lacks.values())
        cells = ("kept" if reason is None else f"lacks: {reason}" for reason in reasons)
        yield f"| `{promise}` | {' | '.join(cells)} |"


def _calls() -> Iterable[str]:
    yield "| call | to | is done where the state is | cannot succeed where it is |"
    yield "|---|---|---|---|"
    for call in (*CALLS, SIGNAL):
        yield f"| `{call.method} {call.path}` | {call.does}{_about(call)} | {_states(call.done)} | {_states(call.gone)} |"
    yield ""
    yield f"Made at most {', '.join(f'{times} times ({kind.value})' for kind, times in TRIES.items())}."


def _about(call: Call) -> str:
    return " (files of the agent can be the cause)" if call.of_files else ""


def _states(states: tuple[State, ...]) -> str:
    return ", ".join(state.value for state in states)


def _words() -> Iterable[str]:
    yield "| means | sentences with | seen in |"
    yield "|---|---|---|"
    for words in TABLE:
        yield f"| {words.means} | {', '.join(f'`{sign}`' for sign in words.signs)} | {words.seen} |"
