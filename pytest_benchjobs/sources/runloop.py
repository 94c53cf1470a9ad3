"""Scenarios of Runloop, as its public API shows them, as scenarios of a manifest."""

from __future__ import annotations

import itertools
import json
import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..model.errors import InputError
from .documents import read_text
from .plain import table_of

_KNOWN = {
    "name", "input_context", "scoring_contract", "environment_parameters", "reference_output", "metadata",
    "required_environment_variables", "required_secret_names", "scorer_timeout_sec", "validation_type", "status", "id",
    "is_public", "create_time_ms",
}  # fmt: skip
_SIZES = {
    "X_SMALL": (0.5, "1G"),
    "SMALL": (1, "2G"),
    "MEDIUM": (2, "4G"),
    "LARGE": (2, "8G"),
    "X_LARGE": (4, "16G"),
    "XX_LARGE": (8, "32G"),
}
"""Sizes of devboxes: processors and memory."""
_FILES, _ROOT = "files", "root"
"""Directories of test files: relative to the working directory, and absolute."""
_TESTS = "/tests"
"""Directory in the container where the scorer `tests` puts its files."""


class Left(NamedTuple):
    """A part of a scenario that could not be mapped."""

    scenario: str
    key: str
    why: str


class Imported(NamedTuple):
    """A scenario as a manifest has it, and the files that it needs: path relative to the manifest -> content."""

    scenario: dict[str, Any]
    files: dict[str, str]
    left: list[Left]


def read_scenarios(path: Path) -> list[Mapping[str, Any]]:
    """Read the scenarios in a file: one, a list, or a page of the API.

    Raises InputError: it cannot be read, or has none.
    """
    try:
        data = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise InputError(f"is not valid JSON: {error.msg}", path=path, line=error.lineno) from None
    except RecursionError:
        raise InputError("is nested too deeply", path=path) from None
    if isinstance(data, dict) and isinstance(data.get("scenarios"), list):
        data = data["scenarios"]
    found = data if isinstance(data, list) else [data]
    for number, one in enumerate(found):
        if not isinstance(one, dict) or not isinstance(one.get("scoring_contract"), dict):
            where = f"scenarios[{number}] " if len(found) > 1 else ""
            raise InputError(
                f"{where}is not a scenario of Runloop: an object with name, input_context and scoring_contract is "
                "expected",
                path=path,
            )
    if not found:
        raise InputError("has no scenarios", path=path)
    return found


def imported(data: Mapping[str, Any], image: str | None, used: Collection[str] = ()) -> Imported:
    """Map a scenario, with an id that is not `used`. What has no equivalent is left out and named."""
    return _Mapping(data, used).mapped(image)


class _Mapping:
    """One scenario on its way."""

    def __init__(self, data: Mapping[str, Any], used: Collection[str]) -> None:
        self._data = data
        self._title = str(data.get("name") or data.get("id") or "scenario")
        name = _name(self._title)
        numbered = (f"{name}-{number}" for number in itertools.count(2))
        self.id = next(one for one in itertools.chain([name], numbered) if one not in used)
        self._files: dict[str, str] = {}
        self._left: list[Left] = []

    def _leave(self, key: str, why: str) -> None:
        self._left.append(Left(self.id, key, why))

    def mapped(self, image: str | None) -> Imported:
        data, context = self._data, table_of(self._data.get("input_context"))
        found: dict[str, Any] = {"id": self.id}
        found |= self._environment(table_of(data.get("environment_parameters")), image)
        found["problem_statement"] = str(context.get("problem_statement") or "")
        if context.get("additional_context") is not None:
            found["additional_context"] = context["additional_context"]
        metadata = {str(key): value for key, value in table_of(data.get("metadata")).items()}
        origin = {
            "runloop_id": data.get("id"),
            "runloop_name": self._title if self._title != self.id else None,
        }
        metadata |= {key: str(value) for key, value in origin.items() if value}
        if metadata:
            found["metadata"] = metadata
        kind = str(data.get("validation_type") or "").lower()
        if kind in ("forward", "reverse", "evaluation"):
            found["validation"] = kind
        if data.get("status") == "archived":
            found["archived"] = True
        found |= self._reference(data.get("reference_output"))
        requires = {
            "env": data.get("required_environment_variables"),
            "secrets": data.get("required_secret_names"),
        }
        if any(requires.values()):
            found["requires"] = {key: list(value) for key, value in requires.items() if value}
        if data.get("scorer_timeout_sec"):
            found["scorer_timeout"] = data["scorer_timeout_sec"]
        found["scorers"] = list(self._scorers(data["scoring_contract"]))
        for key in sorted(data.keys() - _KNOWN):
            self._unknown(key, data[key])
        for key in sorted(context.keys() - {"problem_statement", "additional_context"}):
            self._unknown(f"input_context.{key}", context[key])
        return Imported(found, self._files, self._left)

    def _unknown(self, key: str, value: object) -> None:
        if value not in (None, "", [], {}, False):
            self._leave(key, "has no equivalent")

    # --- environment

    def _environment(self, data: Mapping[str, Any], image: str | None) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if image is not None:
            found["image"] = image
        for key in ("blueprint_id", "blueprint_name", "snapshot_id"):
            if data.get(key) and image is None:
                self._leave(
                    f"environment_parameters.{key}",
                    f"{data[key]} is on Runloop; name an image here with --image",
                )
        if data.get("working_directory"):
            found["workdir"] = str(data["working_directory"])
        launch = table_of(data.get("launch_parameters"))
        found |= self._launched(launch)
        for key in sorted(data.keys() - _ENVIRONMENT):
            self._unknown(f"environment_parameters.{key}", data[key])
        return found

    def _launched(self, launch: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        size = launch.get("resource_size_request")
        if size in _SIZES:
            found["cpus"], found["memory"] = _SIZES[size]
        elif size not in (None, "CUSTOM_SIZE"):
            self._leave(
                "environment_parameters.launch_parameters.resource_size_request", f"{size} is not known"
            )
        for theirs, ours, unit in (
            ("custom_cpu_cores", "cpus", None),
            ("custom_gb_memory", "memory", "G"),
            ("custom_disk_size", "storage", "G"),
        ):
            if launch.get(theirs):
                found[ours] = launch[theirs] if unit is None else f"{launch[theirs]}{unit}"
        if launch.get("launch_commands"):
            found["setup"] = [str(one) for one in launch["launch_commands"]]
        user = table_of(launch.get("user_parameters"))
        if user:
            found["user"] = str(user.get("username") or user.get("uid"))
        # The lifetime of a devbox is that of a trial, which has its own limits.
        for key in sorted(launch.keys() - _LAUNCH):
            self._unknown(f"environment_parameters.launch_parameters.{key}", launch[key])
        return found

    # --- grading

    def _reference(self, text: object) -> dict[str, Any]:
        if not isinstance(text, str) or not text.strip():
            return {}
        if not re.search(r"^(diff --git |--- )", text, re.MULTILINE):
            self._leave(
                "reference_output", "is not a patch: write the solution as reference, a script or files"
            )
            return {}
        path = f"{self.id}/reference.patch"
        self._files[path] = text if text.endswith("\n") else f"{text}\n"
        return {"reference": {"patch": path}}

    def _scorers(self, contract: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        listed = contract.get("scoring_function_parameters")
        for number, one in enumerate(listed if isinstance(listed, list) else ()):
            place = f"scoring_contract.scoring_function_parameters[{number}]"
            table = table_of(one)
            scorer = table_of(table.get("scorer"))
            name = _name(str(table.get("name") or f"scorer-{number + 1}"))
            mapped = self._scorer(place, name, scorer)
            if mapped is None:
                kind = str(scorer.get("type") or "nothing")
                self._leave(f"{place}.scorer.type", f"{kind} is no scorer that is known")
                continue
            found = {"name": name, **mapped}
            weight = table.get("weight")
            if isinstance(weight, int | float) and not isinstance(weight, bool):
                found["weight"] = weight
            yield found

    def _scorer(self, place: str, name: str, scorer: Mapping[str, Any]) -> dict[str, Any] | None:
        """The type of a scorer and what it needs; None if there is no such type."""

        def text(key: str) -> str:
            return str(scorer.get(key) or "")

        match scorer.get("type"):
            case "bash_script_scorer":
                return {"type": "bash", "script": text("bash_script")}
            case "command_scorer":
                return {"type": "command", "command": text("command")}
            case "python_script_scorer":
                found: dict[str, Any] = {"type": "python", "script": text("python_script")}
                lines = text("requirements_contents").splitlines()
                if wanted := [*filter(None, (line.partition("#")[0].strip() for line in lines))]:
                    found["requirements"] = wanted
                if version := text("python_version_constraint"):
                    found["python_version"] = version
                return found
            case "ast_grep_scorer":
                directory = text("search_directory")
                params = {"lang": text("lang"), "pattern": text("pattern")}
                params |= {"path": directory} if directory != "." else {}
                return {"type": "ast_grep", "params": {key: value for key, value in params.items() if value}}
            case "custom_scorer":
                return self._custom(place, scorer)
            case "test_based_scorer":
                return self._tests(place, name, scorer)
        return None

    def _custom(self, place: str, scorer: Mapping[str, Any]) -> dict[str, Any]:
        kind = str(scorer.get("custom_scorer_type") or "")
        self._leave(
            f"{place}.scorer.custom_scorer_type",
            f"the script of {kind!r} is in Runloop's registry: write it as a scorer of this name, "
            f"@pytest_benchjobs.scorer({kind!r})",
        )
        params = scorer.get("scorer_params")
        return {"type": kind, **({"params": params} if isinstance(params, dict) and params else {})}

    def _tests(self, place: str, name: str, scorer: Mapping[str, Any]) -> dict[str, Any]:
        directory = f"{self.id}/{name}"
        used = set()
        for number, file in enumerate(scorer.get("test_files") or ()):
            table = table_of(file)
            path = str(table.get("file_path") or "")
            normal = posixpath.normpath(path) if path else "."
            if normal == "." or normal.startswith("..") or "\0" in path:
                self._leave(
                    f"{place}.scorer.test_files[{number}].file_path", f"{path!r} is not the path of a file"
                )
                continue
            where = _ROOT if normal.startswith("/") else _FILES
            used.add(where)
            self._files[f"{directory}/{where}/{normal.lstrip('/')}"] = str(table.get("file_contents") or "")
        command = str(scorer.get("test_command") or "")
        if not used:
            return {"type": "command", "command": command}
        copies = [
            f"cp -R {_TESTS}/{where}/. {target}"
            for where, target in ((_FILES, "."), (_ROOT, "/"))
            if where in used
        ]
        return {
            "type": "tests",
            "path": directory,
            "command": "\n".join(("set -e", *copies, "set +e", command)),
        }


_ENVIRONMENT = {"blueprint_id", "blueprint_name", "snapshot_id", "working_directory", "launch_parameters"}
_LAUNCH = {
    "resource_size_request", "custom_cpu_cores", "custom_gb_memory", "custom_disk_size", "launch_commands",
    "user_parameters", "keep_alive_time_seconds", "after_idle",
}  # fmt: skip


def _name(text: str) -> str:
    """The text in the characters of ids."""
    return re.sub(r"[^\w.+=-]+", "-", text).strip("-._+=")[:200] or "scenario"
