"""Images whose repositories have no later commits: a layer over the image of a scenario, made once for each."""

from __future__ import annotations

import json
from pathlib import Path

from ...model.errors import ImageBuildFailed
from ...model.scenario import Environment
from .build import Recipe

_SCRIPT = Path(__file__).with_suffix(".sh")
_SAID = "benchjobs: "
"""Beginning of what the script says if it fails."""
_PLACE = Path("git-history")


def address(environment: Environment, key: str) -> str:
    """Return the name of the image, by what it is made of and the `key` of the image below."""
    ending = json.dumps([environment.workdir, environment.git_history])
    return _recipe(f"{_SCRIPT.read_text('utf-8')}{ending}").tag({"": key})


def recipe(environment: Environment, below: str, workdir: str, user: str) -> Recipe:
    """Return how the layer is made over the image with the name `below`, whose workdir and user these are."""
    commit = () if environment.git_history == "base" else (environment.git_history,)
    call = ["/bin/sh", "-c", _SCRIPT.read_text("utf-8"), "sh", environment.workdir or workdir or "/", *commit]
    return _recipe(f"FROM {below}\nUSER root\nRUN {json.dumps(call)}\nUSER {user or 'root'}\n")


def explained(error: ImageBuildFailed, image: str) -> ImageBuildFailed:
    """Return a failed build in the words of the script, if it said why."""
    said = [line.removeprefix(_SAID) for line in str(error).splitlines() if line.startswith(_SAID)]
    return ImageBuildFailed(
        f"git_history: the history in the image {image} cannot be ended: {said[0] if said else error}"
    )


def _recipe(text: str) -> Recipe:
    return Recipe(_PLACE / "Dockerfile", _PLACE, text, {}, {}, {}, ())
