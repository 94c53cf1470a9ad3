"""Files of Docker Compose, as far as they can be read without Docker Compose: for collection, and for images.

A trial has Docker Compose itself normalise the file: with variables filled in, it decides.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..model.scenario import MAIN, Compose, Environment, HealthCheck, ServiceImage
from ..system.keeping import version
from ..system.paths import exists
from .complaints import Complaints
from .compose_rules import UNKNOWN_HERE, faults, outside, paths_of
from .documents import Document, read_document

COMPOSE_FILE = "docker-compose.yaml"
OWN_IMAGE = "benchjobs-main"
"""Value of the variables that stand for the image which the task has without the file."""
_VARIABLE = re.compile(r"\$(?:(?P<escaped>\$)|(?P<plain>\w+)|\{(?P<braced>\w+)(?::?-(?P<default>[^}]*))?\})")
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:us|ms|s|m|h))+")
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def variables(directory: Path, environment: Environment | None = None) -> dict[str, str]:
    """Return the variables that files of Harbor tasks count on, which describe the trial and this machine."""
    cpus = None if environment is None else environment.cpus
    memory = None if environment is None else environment.memory
    return {
        "CONTEXT_DIR": str(directory),
        "MAIN_IMAGE_NAME": OWN_IMAGE,
        "PREBUILT_IMAGE_NAME": OWN_IMAGE,
        "CPUS": f"{cpus or 0:g}",
        "MEMORY": str(memory or 0),
        **{
            f"{whose}_{what}_PATH": f"{place}/{what.partition('_')[0].lower()}"
            for whose, place in (("HOST", UNKNOWN_HERE), ("ENV", "/logs"))
            for what in ("AGENT_LOGS", "VERIFIER_LOGS", "ARTIFACTS", "ARTIFACTS_LOGS")
        },
    }


class ComposeFile:
    """A file that was read, and found to ask for nothing that services of a trial do not get.

    If it does, or cannot be read, that is `InputErrors`, each with its line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.document: Document = read_document(path, keys="compose.md")
        self._known = variables(path.parent)
        complaints = Complaints(self.document)
        for place, message in faults(self.document.data, path.parent, self._text):
            complaints.wrong(place, message)
        complaints.raise_errors()
        self._services: dict[str, dict[str, Any]] = self.document.data["services"]

    @property
    def names(self) -> tuple[str, ...]:
        """The services, with `main`."""
        return tuple(dict.fromkeys((MAIN, *self._services)))

    def described(self) -> Compose:
        """Return what scenarios keep of it."""
        images = {
            name: image
            for name, service in self._services.items()
            if name != MAIN and not service.get("profiles") and (image := self.image_of(name)) is not None
        }
        return Compose(file=self.path, images=images)

    def image_of(self, service: str) -> ServiceImage | None:
        """Return the image of a service; None: the file does not say it, or only with variables of the trial."""
        found = service_image(self._services.get(service, {}), self.path.parent, self._text)
        return None if found is None or found.image == OWN_IMAGE else found

    def with_main(self, environment: Environment) -> Environment:
        """Return an environment with the services, and with what the file says of `main` before it starts."""
        changes: dict[str, Any] = {"compose": self.described()}
        own = self.image_of(MAIN)
        if environment.image is None and own is not None:
            changes |= dict(own)
        if environment.healthcheck is None:
            changes["healthcheck"] = self._health()
        return environment.model_copy(update=changes)

    def _health(self) -> HealthCheck | None:
        """Return the health check of `main`, which nothing else runs."""
        check = self._services.get(MAIN, {}).get("healthcheck")
        if not isinstance(check, dict):
            return None
        test = check.get("test")
        if not test or check.get("disable") or test in ("NONE", ["NONE"]):
            return None
        if isinstance(test, list):
            first, *words = (str(word) for word in test)
            test = " ".join(words) if first == "CMD-SHELL" else shlex.join(words)
        return HealthCheck(
            command=str(test).replace("$$", "$"),
            interval=_seconds(check.get("interval"), 30.0) or 30.0,
            timeout=_seconds(check.get("timeout"), 30.0) or 30.0,
            start_period=_seconds(check.get("start_period"), 0.0),
            start_interval=_seconds(check.get("start_interval"), 5.0) or 5.0,
            retries=max(1, retries) if isinstance(retries := check.get("retries"), int) else 3,
        )

    def _text(self, value: object) -> str | None:
        """Return a text with its variables filled in; None: it is none, or has a variable that only a trial has."""
        if not isinstance(value, str):
            return None

        def fill(found: re.Match[str]) -> str:
            return "$" if found["escaped"] else self._known[found["plain"] or found["braced"]]

        try:
            return _VARIABLE.sub(fill, value)
        except KeyError:
            return None


def service_image(
    service: Mapping[str, Any], directory: Path, text: Callable[[object], str | None]
) -> ServiceImage | None:
    """Return the image of a service in a file of this directory; None: it has none, or one that is not known.

    `text` returns a text with its variables filled in; None: it is none, or has a variable without a value.
    """
    build = service.get("build")
    if build is None:
        image = text(service.get("image"))
        return ServiceImage(image=image) if image else None
    table = build if isinstance(build, dict) else {"context": build}
    args = table.get("args") or {}
    if not isinstance(args, dict):
        args = dict(str(one).split("=", 1) for one in args if "=" in str(one))
    context, dockerfile = text(table.get("context", ".")), text(table.get("dockerfile", "Dockerfile"))
    build_args = {name: text(str(value)) for name, value in args.items() if value is not None}
    if context is None or dockerfile is None or None in build_args.values():
        return None
    place = directory / context
    return ServiceImage.model_validate(
        {"dockerfile": place / dockerfile, "context": place, "build_args": build_args}
    )


def read_compose(path: Path) -> ComposeFile:
    """Return a file, which is read again when it has changed; for its `InputErrors` see `ComposeFile`."""
    try:
        about = path.stat()
    except OSError:
        return ComposeFile(path)
    return _read(path, version(about))


@functools.lru_cache(maxsize=32)
def _read(path: Path, _version: tuple[int, ...]) -> ComposeFile:
    return ComposeFile(path)


def read_paths(file: Path, env: Mapping[str, str]) -> Iterator[Path]:
    """Yield the file itself, and what of its directory its services are given beside their images.

    `env` has the variables of the environment. A file that cannot be read is an `InputError`.
    """
    yield file
    known = {**variables(file.parent), **env}

    def fill(found: re.Match[str]) -> str:
        name = found["plain"] or found["braced"]
        return "$" if found["escaped"] else known.get(name) or found["default"] or ""

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: filled(one) for key, one in value.items()}
        if isinstance(value, list):
            return [filled(one) for one in value]
        return _VARIABLE.sub(fill, value) if isinstance(value, str) else value

    for path in dict.fromkeys(
        path for _, path in paths_of(filled(read_document(file, keys="compose.md").data))
    ):
        if outside(path, file.parent) is None and exists(there := file.parent / path):
            yield there


def _seconds(value: object, default: float) -> float:
    """Return the seconds of a duration such as `1m30s`."""
    if isinstance(value, str) and _DURATION.fullmatch(value):
        return sum(
            float(number) * _UNITS[unit] for number, unit in re.findall(r"([\d.]+)(us|ms|s|m|h)", value)
        )
    return default  # Docker Compose refuses what is no duration
