"""Redaction of the files of a try, which may have secrets that went into the sandbox."""

from __future__ import annotations

from ..store.files import remove_tree
from ..system.redact import Redactor
from .context import TrialContext
from .secrets import redact_files


def redact_output(context: TrialContext) -> None:
    """Redact files from the sandbox. Remove those that cannot be redacted."""
    if not context.secrets:
        return
    findings, redactor = context.findings, Redactor(context.secrets, patterns=())
    artifacts = context.layout.artifacts
    for directory in (artifacts, context.layout.scorers):
        try:
            moved = redact_files(directory, redactor, context.redactor)
            if directory == artifacts:
                findings.artifacts = [moved.get(name, name) for name in findings.artifacts]
        except OSError as error:
            remove_tree(directory)
            if directory == artifacts:
                findings.artifacts.clear()
            context.note(
                f"{directory.name} could not be cleared of secrets, so it was removed: {error.strerror}"
            )
