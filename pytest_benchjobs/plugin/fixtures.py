"""Fixtures around trials: autouse fixtures of conftest.py files, `usefixtures`, `bench_env` and `bench_files`.

pytest sets fixtures up in one stack, for one test at a time. Many trials are in flight at once, so fixtures of trials
have their own finalizers, kept for each node: they run when the last trial below the node has landed. A fixture of
scope session or package is set up before the first trial it covers flies. A trial with a narrower one flies alone, as
such fixtures change the process: its environment, its working directory.

Autouse fixtures of installed plugins are for Python tests, and are ignored; `usefixtures` may name any fixture.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..model.errors import FixtureFailed
from ..model.result import Failure
from ..store.text import clean
from .frames import own_frames
from .items import TrialItem, unwanted
from .private import (
    FixtureLookupError,
    FuncFixtureInfo,
    Scope,
    SetupState,
    TopRequest,
    setup_state,
    tmppath_result_key,
)
from .provided import GIVING, Providing

if TYPE_CHECKING:
    from .items import ItemTicket

_LIMIT = 8000


@dataclasses.dataclass(frozen=True, slots=True)
class Needs:
    """The fixtures of a trial."""

    info: FuncFixtureInfo
    alone: tuple[str, ...]
    """Fixtures because of which a trial flies alone."""


@dataclasses.dataclass(frozen=True, slots=True)
class Hindrance:
    """Reason why a trial does not run: a fixture failed, or skips it."""

    failure: Failure
    skips: bool


class Fixtures:
    """Fixtures around the trials of one process. Everything runs in the main thread.

    Args:
        session: The session.
        tickets: Trials to run.
        captures: True to put the output of fixtures into a section of the report. False: pytest captures it already.
    """

    def __init__(
        self, session: pytest.Session, tickets: Iterable[ItemTicket], *, captures: bool = True
    ) -> None:
        self._session: Any = session
        self._captures = captures
        self._known: dict[tuple[pytest.Collector | None, tuple[str, ...]], Needs | None] = {}
        self._left: Counter[Any] = Counter()
        """Node -> trials below it that have not landed."""
        self._open = False
        self._holder = _Holder()
        self._providing = Providing()
        self.last: TrialItem | None = None
        """Item of the last landed trial."""
        self.any = False
        """True if any trial has fixtures."""
        self.expect(tickets)

    def expect(self, tickets: Iterable[ItemTicket]) -> None:
        """Note trials that are to run."""
        for ticket in tickets:
            if self.needs(ticket.item) is not None:
                self.any = True
                self._left.update(ticket.item.listchain())

    def keep_open(self) -> None:
        """Tear down only what is of one trial before `close`: further attempts may follow the last trial."""
        self._open = True

    def needs(self, item: TrialItem) -> Needs | None:
        """Return the fixtures of an item; None if it has none."""
        # Looked up once for each file: there may be 100,000 items, and nearly none has fixtures.
        marked = tuple(
            name for mark in item.own_markers if mark.name == "usefixtures" for name in map(str, mark.args)
        )
        key = (item.parent, marked)
        if key not in self._known:
            self._known[key] = _needs_of(item)
        return self._known[key]

    def first(self, items: Iterable[pytest.Item]) -> TrialItem | None:
        """Return the first item that is a trial with fixtures; None if there is none."""
        if not self.any:
            return None
        return next(
            (item for item in items if isinstance(item, TrialItem) and self.needs(item) is not None), None
        )

    def alone(self, tickets: Iterable[ItemTicket]) -> tuple[int, tuple[str, ...]]:
        """Return the number of trials that fly alone, and the fixtures that cause it."""
        found = [
            needs.alone
            for ticket in tickets
            if (needs := self.needs(ticket.item)) is not None and needs.alone
        ]
        return len(found), tuple(dict.fromkeys(name for names in found for name in names))

    def flies_alone(self, ticket: ItemTicket) -> bool:
        """Return whether a trial has to wait until no other is in flight."""
        needs = self.needs(ticket.item)
        return needs is not None and bool(needs.alone)

    def enter(self, ticket: ItemTicket) -> Hindrance | None:
        """Set up the fixtures of a trial before it flies; return why it cannot, if one failed."""
        item = ticket.item
        needs = self.needs(item)
        if needs is None or unwanted(item) is not None:
            return None
        try:
            with self._in_turn(item, "setup"):
                values = _filled(item, needs.info)
            ticket.provided = self._providing.of(values)
        except pytest.skip.Exception as skip:
            return Hindrance(Failure(class_="marked", message=clean(str(skip.msg), 2000)), skips=True)
        except (Exception, pytest.fail.Exception) as error:
            return Hindrance(_failure(error), skips=False)
        return None

    def leave(self, ticket: ItemTicket, *, passed: bool) -> None:
        """Tear down fixtures that no other trial needs, when a trial has landed. Its item reports errors."""
        item = self.last = ticket.item
        if self.needs(item) is None:
            return
        ticket.provided = None
        # As expected by `tmp_path`, which keeps the directories of failed tests.
        item.stash.setdefault(tmppath_result_key, {})["call"] = passed
        ended = []
        for node in reversed(item.listchain()):
            self._left[node] -= 1
            if self._left[node] <= 0 and (node is item or not self._open):
                del self._left[node]
                ended.append(node)
        with self._in_turn(item, "teardown"):
            errors = [error for node in ended for error in self._holder.finish(node)]
        if errors:
            item.teardown_error = (
                errors[0]
                if len(errors) == 1
                else BaseExceptionGroup("errors while tearing down fixtures", errors)
            )

    def close(self) -> list[str]:
        """Tear down the remaining fixtures, when no trial is in flight; return a line for each error."""
        with setup_state(self._session, self._holder):
            errors = [error for node in self._holder.nodes() for error in self._holder.finish(node)]
        self._providing.close()
        return [clean(f"{type(error).__name__}: {error}", 500) for error in errors]

    @contextlib.contextmanager
    def _in_turn(self, item: TrialItem, when: str) -> Iterator[None]:
        """Capture the output of fixtures as a section of an item's report."""
        capture = item.config.pluginmanager.get_plugin("capturemanager") if self._captures else None
        here = setup_state(self._session, self._holder)
        with here, capture.item_capture(when, item) if capture else contextlib.nullcontext():
            yield


class _Holder(SetupState):
    """Takes finalizers for any node at any time, where pytest's own `SetupState` requires a stack of nodes."""

    def __init__(self) -> None:
        super().__init__()
        self._finalizers: dict[Any, list[Callable[[], object]]] = {}

    def is_node_active(self, node: Any) -> bool:  # noqa: ARG002
        """True: finalizers of all nodes are kept."""
        return True

    def addfinalizer(self, finalizer: Callable[[], object], node: Any) -> None:
        """Keep a finalizer until the node is finished."""
        self._finalizers.setdefault(node, []).append(finalizer)

    def nodes(self) -> list[Any]:
        """The nodes with finalizers, the innermost first."""
        return sorted(self._finalizers, key=lambda node: len(node.listchain()), reverse=True)

    def finish(self, node: Any) -> list[BaseException]:
        """Run the finalizers of a node, the last first; return the exceptions."""
        errors: list[BaseException] = []
        finalizers = self._finalizers.pop(node, [])
        while finalizers:
            try:
                finalizers.pop()()
            except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
                errors.append(error)
        return errors


def _needs_of(item: TrialItem) -> Needs | None:
    session: Any = item.session
    manager = session._fixturemanager
    usual = item.config.getini("usefixtures")
    names = [
        *(name for name in manager._getautousenames(item) if name in usual or _is_of_project(item, name)),
        *manager._getusefixturesnames(item),
        *(name for name in GIVING if manager.getfixturedefs(name, item)),
    ]
    if not names:
        return None
    initial = tuple(dict.fromkeys(names))
    closure, definitions = manager.getfixtureclosure(
        parentnode=item, initialnames=initial, ignore_args=frozenset()
    )
    alone = tuple(
        name
        for name in closure
        if any(found._scope < Scope.Package for found in definitions.get(name, ())[-1:])
    )
    return Needs(FuncFixtureInfo((), initial, closure, definitions), alone)


def _is_of_project(item: TrialItem, name: str) -> bool:
    """Return whether a fixture is of a conftest.py or plugin in the project, and not of an installed plugin."""
    session: Any = item.session
    root = item.config.rootpath
    for definition in session._fixturemanager.getfixturedefs(name, item) or ():
        function = inspect.unwrap(definition.func)
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        path = Path(code.co_filename) if code is not None else Path()
        if path.name == "conftest.py" or (path.is_relative_to(root) and "site-packages" not in path.parts):
            return True
    return False


def _filled(item: Any, info: FuncFixtureInfo) -> Mapping[str, object]:
    """Set up fixtures for an item; return their values."""
    item._fixtureinfo, item.fixturenames, item.funcargs = info, info.names_closure, {}
    try:
        TopRequest(item, _ispytest=True)._fillfixtures()
        values: Mapping[str, object] = item.funcargs
        return values
    finally:
        del item._fixtureinfo, item.fixturenames, item.funcargs


def _failure(error: BaseException) -> Failure:
    """Convert a failed fixture into a failure for the result."""
    name = type(error).__name__
    said = str(error) if name == "Failed" else f"{name}: {error}"
    if isinstance(error, FixtureLookupError):
        said = error.msg or f"fixture {error.argname!r} not found"
    frames = traceback.format_tb(own_frames(error.__traceback__))
    detail = "".join([*frames, *traceback.format_exception_only(error)])
    return Failure(
        class_=FixtureFailed.code,
        message=clean(f"a fixture failed: {said}", 2000),
        phase="setup",
        detail=clean(detail, _LIMIT),
    )
