"""Meaning of an answer of the engine: decided by the state of the called object, never by a sentence.

    answer                          state of the thing              meaning
    any but success                 the engine answers nobody       not yet: wait for the engine
    any but success                 as the call wanted it           done already
    any but success                 gone, or ended                  gone
    any but success                 being removed                   not yet: wait for its end
    refused, failed, cut, silent    as before                       once more, a few times with growing pauses
    refused again and again         as before                       ours is wrong
    failed again and again          as before                       broken

An engine that answers a ping and tells the state, and then refuses the same call again and again, is what "broken"
means. `docs/engines.md` has these tables; `calling.py` acts on them.
"""

from __future__ import annotations

import dataclasses
import enum
import re

_VERSION = re.compile(r"^/v\d+\.\d+(?=/)")
_ID = r"/(?P<id>[^/?]+)"


class State(enum.Enum):
    """State of the object of a call."""

    ABSENT = "absent"
    CREATED = "created"
    """A container or command that was not started."""
    RUNNING = "running"
    ENDED = "ended"
    REMOVING = "being removed"
    THERE = "there"
    """Of things that do not run."""
    JOINED = "joined"
    """A container is in the network."""
    APART = "apart"
    """It is not."""
    NO_NETWORK = "without its network"
    """A container that is to be in a network which is gone."""
    TAKEN = "taken"
    """Another network has the wanted subnet."""
    UNKNOWN = "unknown"
    """The engine answers, but does not tell."""
    AWAY = "away"
    """The engine does not answer."""


class Kind(enum.Enum):
    """End of a call that failed."""

    REFUSED = "4xx"
    FAILED = "5xx"
    CUT = "cut"
    SILENT = "silent"


class Meaning(enum.Enum):
    """Meaning of a failed call."""

    DONE = "done already"
    GONE = "gone"
    AGAIN = "once more"
    NOT_YET = "not yet"
    BROKEN = "broken"
    OURS = "ours is wrong"


class Subject(enum.Enum):
    """The kind of thing that a call is about."""

    CONTAINER = "container"
    COMMAND = "command"
    NETWORK = "network"
    MEMBER = "container in a network"
    VOLUME = "volume"
    ENGINE = "engine"


TRIES = {Kind.REFUSED: 3, Kind.FAILED: 5, Kind.CUT: 5, Kind.SILENT: 2}
"""Number of attempts of a call while its answers stay of this kind and nothing changes."""
PAUSES = (0.1, 0.3, 0.8, 2.0)
"""Seconds before each further time."""


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """One kind of call: what it `does`, as in "the Docker Engine refused to ...", and what it is about."""

    does: str
    method: str
    path: str
    """Without version; `{}` stands for the id of the subject."""
    subject: Subject
    done: tuple[State, ...] = ()
    """States in which nothing is left to do."""
    gone: tuple[State, ...] = (State.ABSENT,)
    """States in which it can never succeed."""
    of_files: bool = False
    """Files that an agent left can make it fail."""
    asks: bool = False
    """It asks whether something is there; two 404 in a row are believed, of files with another kind of call's word."""

    @property
    def pattern(self) -> re.Pattern[str]:
        """Matches its paths without version and query."""
        return re.compile(re.escape(self.path).replace(r"/\{\}", _ID))


_ENDED = (State.ABSENT, State.ENDED)
_C, _E, _N, _M, _V = Subject.CONTAINER, Subject.COMMAND, Subject.NETWORK, Subject.MEMBER, Subject.VOLUME
CALLS = (
    Call("create a container", "POST", "/containers/create", _C, done=(State.CREATED,), gone=()),
    Call("start a container", "POST", "/containers/{}/start", _C,
         done=(State.RUNNING,), gone=(State.ABSENT, State.NO_NETWORK), of_files=True),
    Call("end a container", "POST", "/containers/{}/kill", _C, done=_ENDED, gone=()),
    Call("remove a container", "DELETE", "/containers/{}", _C, done=(State.ABSENT,), gone=()),
    Call("describe a container", "GET", "/containers/{}/json", _C),
    Call("list the processes of a container", "GET", "/containers/{}/top", _C, gone=_ENDED),
    Call("measure a container", "GET", "/containers/{}/stats", _C, gone=_ENDED),
    Call("list the changes of a container", "GET", "/containers/{}/changes", _C, of_files=True),
    Call("put files into a container", "PUT", "/containers/{}/archive", _C, of_files=True),
    Call("get files out of a container", "GET", "/containers/{}/archive", _C, of_files=True, asks=True),
    Call("keep a container", "POST", "/commit", _C),
    Call("hear a container", "POST", "/containers/{}/attach", _C, gone=_ENDED),
    Call("prepare a command", "POST", "/containers/{}/exec", _C, gone=_ENDED),
    Call("start a command", "POST", "/exec/{}/start", _E, gone=(State.ABSENT, State.RUNNING, State.ENDED)),
    Call("describe a command", "GET", "/exec/{}/json", _E),
    Call("make a network", "POST", "/networks/create", _N, done=(State.THERE,), gone=(State.TAKEN,)),
    Call("remove a network", "DELETE", "/networks/{}", _N, done=(State.ABSENT,), gone=()),
    Call("join a network", "POST", "/networks/{}/connect", _M, done=(State.JOINED,)),
    Call("leave a network", "POST", "/networks/{}/disconnect", _M, done=(State.APART, State.ABSENT), gone=()),
    Call("make a volume", "POST", "/volumes/create", _V, gone=()),
    Call("remove a volume", "DELETE", "/volumes/{}", _V, done=(State.ABSENT,), gone=()),
)  # fmt: skip
"""Every call that is about one thing. A signal that does not kill is `SIGNAL`; other questions are `QUESTION`."""
SIGNAL = Call("signal a container", "POST", "/containers/{}/kill?signal", Subject.CONTAINER, gone=_ENDED)
QUESTION = Call("answer", "GET", "", Subject.ENGINE, gone=(), asks=True)
"""Whatever only asks: images, versions, lists. That something is not there is an answer."""
_FOUND = tuple((call.method, call.pattern, call) for call in CALLS)


def call_of(method: str, target: str) -> tuple[Call, str] | None:
    """Return the call with this path and query, and the id in it; None: it is none of these (builds, pulls, tags)."""
    path, _, query = _VERSION.sub("", target).partition("?")
    for its_method, pattern, call in _FOUND:
        if method == its_method and (match := pattern.fullmatch(path)):
            if call.path.endswith("/kill") and "signal=" in query and "KILL" not in query:
                return SIGNAL, match["id"]
            return call, match.groupdict().get("id", "")
    return (QUESTION, "") if method == "GET" else None


def kind_of(status: int | None) -> Kind:
    """Return the kind of an answer with this status, which is none of success."""
    if status is None:
        return Kind.CUT
    return Kind.FAILED if status >= 500 or status < 400 else Kind.REFUSED


def meaning(call: Call, kind: Kind, state: State, before: int) -> Meaning:
    """Return what follows from an answer; `before`: how many answers of its kind there were, with this one."""
    if state is State.AWAY:
        return Meaning.NOT_YET
    if state in call.done:
        return Meaning.DONE
    if state in call.gone:
        return Meaning.GONE
    if state is State.REMOVING:
        return Meaning.NOT_YET
    if before < TRIES[kind]:
        return Meaning.AGAIN
    return Meaning.OURS if kind is Kind.REFUSED else Meaning.BROKEN
