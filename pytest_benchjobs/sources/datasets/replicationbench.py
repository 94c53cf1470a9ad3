"""ReplicationBench: numbers of astrophysics papers, to be computed again; the core set of numeric tasks by experts.

One scenario for each task, as in Harbor's adapter; its own harness gives an agent a paper with all its tasks at once.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...model.errors import InputError
from ...model.scenario import Answer, Environment, Scenario, ScorerSpec
from ..protocol import ScenarioRef
from ..rows import Row, RowSource, write_rows

_ENVIRONMENTS, _DATA = "environments", "data"
_FILE = "result.json"
_KEY = "value"
_TIMEOUT = 3600.0
_TASK = """\
You are reproducing a numerical result of the paper "{title}". Compute the result by the method that is described: \
do not guess it, and do not take it from the paper.

Task: {description}

{instructions}

{more}Give the result as a JSON object with the one key "value", such as {{"value": 1.5}} or {{"value": [1.5, 2.5]}}, \
with full precision. A result that you cannot compute is null."""
_REPLY = 'The last line of your response should be of the form "ANSWER: {"value": ...}".'
_INSTRUCTION = "Write that JSON object, and nothing else, to the file `{file}`."
_TOOLS = (
    "RUN apt-get update && apt-get install -y --no-install-recommends build-essential gfortran git wget "
    "&& rm -rf /var/lib/apt/lists/*"
)
_PACKAGE = re.compile(r"[A-Za-z0-9][\w.\[\]<>=!~,+@:/-]*", re.ASCII)
_DATASET = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_URL = re.compile(r"https?://[^\s\"'\\$`\[\]]+", re.ASCII)


class ReplicationBench(RowSource):
    """The tasks. The benchmark's data files are beside its rows."""

    file = "tasks.jsonl"

    def ref(self, row: Row) -> ScenarioRef:
        """`PAPER__TASK`; its paper and its need for data are tags."""
        needs = "needs-data" if row["needs_data"] else "no-data"
        return ScenarioRef(
            f"{row['paper']}__{row['task']}",
            (needs, f"paper-{row['paper']}"),
            scorers=("answer",),
            needs_container=bool(row["needs_data"]),
        )

    def scenario(self, row: Row, ref: ScenarioRef) -> Scenario:
        """A task. With data, every agent works in the container of its paper."""
        needs_data = bool(row["needs_data"])
        statement = _TASK.format(
            title=row["title"],
            description=row["description"],
            instructions=row["instructions"],
            more="".join(f"{text}\n\n" for text in row["more"]),
        )
        expected = row["expected"]
        match = {"match": "number", "expected": expected, "tolerance": row["tolerance"], "key": _KEY}
        return self.build(
            ref,
            problem_statement=statement if needs_data else f"{statement}\n\n{_REPLY}",
            environment=Environment(
                dockerfile=self.path.parent / _ENVIRONMENTS / row["paper"] / "Dockerfile",
                build_timeout=_TIMEOUT,
                workdir="/app",
            ),
            files=self._data(row),
            agent_timeout=_TIMEOUT,
            answer=Answer(
                file=_FILE,
                instruction=_INSTRUCTION,
                reference=json.dumps({_KEY: expected}),
                needs_container=needs_data,
            ),
            scorers=(ScorerSpec(name="answer", type="answer", params=match),),
        )

    def _data(self, row: Row) -> dict[str, Path]:
        """Return the data files of the benchmark to copy into the container. Raises ValueError: they are not here."""
        if not row["local_data"]:
            return {}
        place = self.path.parent / _DATA / row["paper"]
        if not place.is_dir():
            raise ValueError(f"its data are not here: put them into {place}")
        return {f"{_DATA}/{row['paper']}": place}


sources = ReplicationBench.of


def prepare(fetched: Path, filled: Path) -> None:
    """Write the core tasks into one file, a Dockerfile for each paper, and copy the data that are there.

    Raises InputError: there are no papers or tasks, or one is wrong.
    """
    papers = {paper["paper_id"]: paper for paper in _read(fetched, "papers/*.json", ("paper_id", "source"))}
    tasks = _read(fetched, "tasks/*/*.json", ("paper_id", "task_id", "kind"))
    core = (
        _row(paper, task)
        for task in tasks
        if (paper := papers.get(task["paper_id"], {})).get("source") == "expert" and task["kind"] == "numeric"
    )
    write_rows(filled / ReplicationBench.file, core)
    for name, paper in papers.items():
        if paper["source"] == "expert":
            place = filled / _ENVIRONMENTS / name
            place.mkdir(parents=True)
            (place / "Dockerfile").write_text(_dockerfile(paper), "utf-8")
            for data in sorted(fetched.rglob(f"{_DATA}/{name}")):
                shutil.copytree(data, filled / _DATA / name, dirs_exist_ok=True)


def _read(fetched: Path, pattern: str, keys: Sequence[str]) -> Iterator[dict[str, Any]]:
    found = sorted(fetched.rglob(pattern))
    if not found:
        raise InputError(f"there are no files {pattern} of ReplicationBench here", path=fetched)
    for path in found:
        try:
            content = json.loads(path.read_bytes())
            names = [str(content[key]) for key in keys]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"cannot be read: {error!r}"[:300], path=path) from None
        if not all(re.fullmatch(r"[\w.+=-]+", name) for name in names):
            raise InputError(f"{keys} must be plain names, not {names}", path=path)
        yield content


def _row(paper: Mapping[str, Any], task: Mapping[str, Any]) -> dict[str, Any]:
    datasets = _listed(paper.get("dataset"))
    kinds = {dataset.get("kind") for dataset in datasets}
    access = [_text(dataset.get("data_instructions")) for dataset in datasets]
    return {
        "paper": paper["paper_id"],
        "task": task["task_id"],
        "title": paper.get("title", paper["paper_id"]),
        "description": _text(task.get("description")),
        "instructions": _text(task.get("instructions")),
        "more": [text for text in (_text(paper.get("other_instructions")), *access) if text],
        "needs_data": kinds != {"none"},
        "local_data": "local" in kinds,
        "expected": task["expected_output"],
        "tolerance": task["tolerance"],
    }


def _listed(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, Mapping)]


def _text(value: Any) -> str:
    """Return a text of the authors as lines: they have texts, lists and tables of them."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return "\n".join(f"{key}: {_text(one)}" for key, one in value.items())
    if isinstance(value, list):
        return "\n".join(map(_text, value))
    return str(value)


def _dockerfile(paper: Mapping[str, Any]) -> str:
    """Return the Dockerfile of a paper: Python, those of its packages that can be installed, and its data."""
    wanted = paper.get("execution_requirements", {}).get("dependencies") or ()
    packages = [name for name in wanted if isinstance(name, str) and _PACKAGE.fullmatch(name)]
    lines = [
        "FROM python:3.11-slim",
        _TOOLS,
        "WORKDIR /app",
    ]
    if packages:
        listed = " ".join(f"'{name}'" for name in dict.fromkeys(packages))
        lines.append(
            f'RUN for name in {listed}; do pip install --no-cache-dir "$name" || echo "left out: $name"; done'
        )
    for dataset in _listed(paper.get("dataset")):
        if dataset.get("kind") == "wget":
            urls = [url for url in dataset.get("url", ()) if isinstance(url, str) and _URL.fullmatch(url)]
            lines += [
                f"ADD {url} /app/data/{re.sub(r'[^A-Za-z0-9._-]', '_', url.rpartition('/')[2])}"
                for url in urls
            ]
        elif dataset.get("kind") == "huggingface":
            names = [name for name in dataset.get("hf_name", ()) if _DATASET.fullmatch(str(name))]
            lines += [
                "RUN pip install --no-cache-dir huggingface_hub && hf download --repo-type dataset "
                f"{name} --local-dir /app/data/{name}"
                for name in dict.fromkeys(names)
            ]
    return "\n".join(lines) + "\n"
