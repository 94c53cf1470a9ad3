"""List and pull the images of a benchmark, by a pytest that runs no trials."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..job.detach import why_it_ended
from ..model.errors import InputError
from ..report.documents.images import ImagesDocument, ListedImage, totals
from ..report.units import counted, duration
from ..settings.call import words
from ..store.text import one_line
from ..system.temporary import temporary_directory
from ._images_text import amount, image_name
from ._output import say
from ._pytest_call import Call, passing_on
from .plan import planning

_OUT, _PULL = "BENCHJOBS_IMAGES_OUT", "BENCHJOBS_IMAGES_PULL"
"""Environment variables that `plugin.images` reads."""
_INTERRUPTED = 2
_REASON = 500


def find_images(
    benchmark: str, scenarios: Sequence[str], rest: Sequence[str], *, pull: bool
) -> ImagesDocument:
    """Return the images that a run of a benchmark would need; `pull` pulls or builds them. Progress goes to stderr.

    Raises:
        InputError: pytest ended with an error.
        KeyboardInterrupt: it was interrupted.
    """
    arguments = (*words({"benchmarks": (benchmark,), "scenarios": tuple(scenarios)}), *rest)
    progress = _Progress()
    with temporary_directory("images") as place:
        log = place / "pytest.log"
        status = _call(Call(arguments, Path.cwd()), log, progress, pull=pull)
        if status == _INTERRUPTED:
            raise KeyboardInterrupt
        if progress.found is None or status != 0:
            raise InputError(why_it_ended(log, status))
    images = tuple(ListedImage.model_validate(image) for image in progress.found.pop("images"))
    return ImagesDocument(benchmark=benchmark, images=images, totals=tuple(totals(images)), **progress.found)


class _Progress:
    """Progress on stderr."""

    def __init__(self) -> None:
        self.found: dict[str, Any] | None = None
        """The whole answer, at the end."""
        self._ended, self._all = 0, 0
        self._began = time.monotonic()

    def take(self, what: str, value: Any) -> None:
        """Handle a message from pytest."""
        if what == "asking":
            say(f"asking registries for the sizes of {counted(value, 'image')}", err=True)
        elif what == "bringing":
            self._all = value
            say(f"pulling or building {counted(value, 'image')}", err=True)
        elif what == "ended":
            self._ended += 1
            self._say_ended(ListedImage.model_validate(value))
        elif what == "found":
            self.found = value

    def _say_ended(self, image: ListedImage) -> None:
        after = duration(time.monotonic() - self._began)
        how = f"here, {amount(image)}" if image.error is None else one_line(image.error, _REASON)
        say(f"{self._ended} of {self._all}, {after}: {image_name(image.image)}: {how}", err=True)


def _call(call: Call, log: Path, progress: _Progress, *, pull: bool) -> int:
    """Make the call and handle its messages; return its exit status."""
    reading, writing = os.pipe()
    more = {_OUT: str(writing), **({_PULL: "1"} if pull else {})}
    with os.fdopen(reading, "rb") as news, log.open("wb") as file:
        try:
            process = subprocess.Popen(
                planning(call),
                cwd=call.directory,
                env={**call.environment, **more},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                pass_fds=(writing,),
            )
        finally:
            os.close(writing)
        with process, passing_on(process):
            try:
                for line in news:
                    if line.endswith(b"\n"):  # else pytest was killed while it wrote
                        for what, value in json.loads(line).items():
                            progress.take(what, value)
                return process.wait()
            except BaseException:
                process.terminate()
                raise
