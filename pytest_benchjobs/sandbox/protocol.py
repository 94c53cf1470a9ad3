"""The protocols of sandboxes and their providers: what a trial needs of the place it runs in.

Calls block, and are made from the one thread that runs the trial; `kill` may come from any thread.
Every method raises an `InfrastructureError` of the right class when the engine fails, whatever the trial was doing.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from ..model.errors import AgentSetupFailed
from ..model.finding import Finding
from ..model.image import ImageSize
from ..model.job import JobConfig
from ..model.result import ImageRecord
from ..model.scenario import Environment, Network, Scenario, ServiceImage

KEPT = "benchjobs-kept:"
"""Prefix of the references of kept containers of a Docker Engine."""
BYTECODE = "__pycache__"
"""Such a directory below the `source` of a `File` is not put in: Python leaves it behind here, with paths of here."""


@dataclasses.dataclass(frozen=True, slots=True)
class File:
    """Something to put into a sandbox: `content`, a host file or directory (`source`), or else a directory."""

    path: str
    """Absolute path in the sandbox."""
    content: bytes | None = None
    source: Path | None = None
    mode: int | None = None
    """Permission bits; default: 0644 for content, the source's own for files of the host."""
    clean: bool = False
    """Remove whatever is at `path` first. The engine does it: nothing in the sandbox is asked."""
    readable: bool = False
    """Everybody can read it, and enter its directories, whatever the permission bits of the source."""
    owner: tuple[int, int] = (0, 0)
    """User and group id of content, or of a directory that is made."""


@dataclasses.dataclass(frozen=True, slots=True)
class Mount:
    """A file, socket or directory of this machine that a sandbox sees, read-only."""

    source: Path
    """Has to stay there until the sandbox is removed: engines look for it whenever they start it or copy files."""
    target: str
    """Absolute path in the sandbox. Where an engine does not see this machine's files, it gets a copy of them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Stopping:
    """Way to ask a command to end, before it is killed."""

    requested: Callable[[], bool]
    """Looked at several times a second; once it is true, the command's time is up."""
    signal: Callable[[str], None]
    """Sends `INT` or `TERM` to the command and all its children. Never raises."""
    graces: tuple[tuple[str, float], ...] = (("INT", 5.0), ("TERM", 2.0))
    """Signals in their order, and how many seconds each is given."""
    held: Callable[[], float] = lambda: 0.0
    """Seconds so far that do not count as the command's time, because others kept it waiting."""


@dataclasses.dataclass(frozen=True, slots=True)
class ImageRequest:
    """The image that an environment needs in a job."""

    environment: Environment
    image_map: Mapping[str, str] = dataclasses.field(default_factory=dict)
    build_args: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Build arguments of the job, which go before the environment's own."""
    registry: str | None = None
    """`HOST/PATH` where images that were built are kept for other machines. It does not decide which image it is."""

    @classmethod
    def of(cls, environment: Environment, job: JobConfig) -> ImageRequest:
        """Return what an environment needs with the settings of a job."""
        return cls(environment, job.image_map, job.build_args, job.registry)

    def of_service(self, image: ServiceImage) -> ImageRequest:
        """Return what a service beside the environment needs."""
        return dataclasses.replace(self, environment=self.environment.of_service(image))

    @property
    def arguments(self) -> dict[str, str]:
        """All build arguments."""
        return {**self.environment.build_args, **self.build_args}

    @property
    def key(self) -> tuple[object, ...]:
        """All that decides which image it is. Hashable."""
        maps = (tuple(sorted(one.items())) for one in (self.arguments, self.image_map))
        return (self.environment.image_source, *maps)


@dataclasses.dataclass(frozen=True, slots=True)
class SandboxSpec:
    """Specification of a sandbox to start. `environment.env` is already filled in."""

    environment: Environment
    labels: Mapping[str, str]
    """Labels of the trial: job, node id, attempt. The provider adds its own (owner, deadline)."""
    network: Network
    deadline: float
    """Seconds after which the sandbox ends itself, whatever becomes of us."""
    files: tuple[File, ...] = ()
    """Put in before it starts. A relative path starts at the workdir."""
    image_map: Mapping[str, str] = dataclasses.field(default_factory=dict)
    build_args: Mapping[str, str] = dataclasses.field(default_factory=dict)
    registry: str | None = None
    mounts: tuple[Mount, ...] = ()
    relayed: tuple[Mount, ...] = ()
    """Sockets among its mounts that the provider cannot mount: it fills this in, and carries connections to them."""
    delivered: tuple[tuple[str, str], ...] = ()
    """Directories among its mounts that the provider was given, by target and the provider's name: it fills this in."""
    kept: str | None = None
    """Start from what `Sandbox.keep` returned instead of the environment's image. All else is as it would be."""
    grading: bool = False
    """The agent's work is graded in it. That is paid for already, so it does not wait for room for its image."""
    allowed_hosts: tuple[str, ...] = ()
    """Of the network `allowlist`."""
    limited: bool = False
    """Its network is an allowlist, now or later."""
    opened: bool = False
    """Its network is public, now or later."""
    runtime: str | None = None
    """Runtime of the engine; None: the engine's own."""
    notes: tuple[str, ...] = ()
    """For the result."""
    trusted: bool = False
    """The agent in it may remove our programs, but would not replace them."""

    @property
    def image(self) -> ImageRequest:
        """Its image, where nothing that was kept takes its place."""
        return ImageRequest(self.environment, self.image_map, self.build_args, self.registry)

    def check_mounts(self) -> None:
        """Make sure that what is to be mounted is on this machine; an `AgentSetupFailed`, if it is not."""
        for mount in self.mounts:
            if not mount.source.exists():
                raise AgentSetupFailed(f"{mount.source} does not exist; agents need it as {mount.target}")


@dataclasses.dataclass(frozen=True, slots=True)
class ExecResult:
    """Result of a command."""

    exit_status: int | None
    """None when it timed out."""
    timed_out: bool
    """It was still running when its time was up; `silent` says whether that was for printing nothing."""
    seconds: float
    oom_kills: int = 0
    """Processes of the sandbox which the kernel killed for memory meanwhile."""
    started: bool = True
    """False when there never was a process: no such program or user."""
    stopped: bool = False
    """Its time was up because `Stopping.requested` said so. `timed_out` is true then, too."""
    silent: bool = False
    """It timed out because nothing was printed for longer than `exec` allows."""
    cut_short: bool = False
    """Its output ended well before it did: it has closed it, or the connection broke."""


@dataclasses.dataclass(frozen=True, slots=True)
class Fetched:
    """Files that came out of a sandbox."""

    files: tuple[str, ...]
    """Relative paths that were written."""
    bytes: int
    notes: tuple[str, ...] = ()
    """Notes on what was left out, and why: over the size, a device, a link that points outside."""
    owners: Mapping[str, int] = dataclasses.field(default_factory=dict, compare=False)
    """Relative path -> user id, as far as the sandbox tells."""


@dataclasses.dataclass(frozen=True, slots=True)
class Kept:
    """A file system that was kept of a trial."""

    reference: str
    """For `SandboxSpec.kept`."""
    job: str
    trial: str
    """Its node id."""
    bundle: str
    """Directory of the job's bundle on the machine that ran it."""
    bytes: int
    """Room it takes beyond the image the trial began with."""
    created: datetime.datetime


ROOT = frozenset({"root", "0", "root:root", "0:0"})
"""Names of the user root."""
Sink = Callable[[bytes], None]
"""Takes output as it comes, stdout and stderr merged. Must be quick; caps are its own affair."""
Stdin = Callable[[Callable[[bytes], None]], None]
"""Takes what writes to the standard input of a command, from any thread: once the command has printed something."""


class Promise(enum.StrEnum):
    """Something that trials count on, and that not every provider can give (`SandboxProvider.lacks`)."""

    ISOLATION = "isolation"
    """What runs in a sandbox has files and processes of its own, and what comes out of it harms nobody."""
    IMAGES = "images"
    """A sandbox is made from the image that its scenario names."""
    USERS = "users"
    """Commands run as the user that they are given."""
    MEMORY = "memory"
    """The processes of a sandbox have no more memory than its limit."""
    OUT_OF_MEMORY = "out_of_memory"
    """A command's result counts the processes that were killed for memory, children of it, too."""
    CPUS = "cpus"
    """They have no more processors than the limit."""
    PIDS = "pids"
    """There are no more of them than the limit."""
    STORAGE = "storage"
    """They are ended where they write more than the limit."""
    DAEMONS = "daemons"
    """What a command leaves running in the background runs on when the command has ended."""
    NO_NETWORK = "network_none"
    """The network `none` reaches nothing but the sandbox itself and the gateway."""
    ALLOWLIST = "network_allowlist"
    """The network `allowlist` reaches the hosts that are allowed, and no other."""
    EVIDENCE = "evidence"
    """`tampered` tells what an agent changed outside of the workdir."""
    KEEPING = "keeping"
    """File systems are kept, and sandboxes started from them."""
    SERVICES = "services"
    """There are containers of services beside a sandbox."""


class Service(Protocol):
    """A running container: of a service, which no agent works in, or a `Sandbox`."""

    @property
    def workdir(self) -> str:
        """Absolute path commands run in."""

    def exec(self, argv: Iterable[str], *, timeout: float, sink: Sink, user: str | None = None) -> ExecResult:
        """Run a command to its end or its timeout (seconds), as `Sandbox.exec` does."""

    def fetch(
        self, path: str, destination: Path, *, limit: int, exclude: tuple[str, ...] = ()
    ) -> Fetched | None:
        """Copy a file or directory out: no links outside, no devices, at most `limit` bytes. None: not there."""


class Sandbox(Service, Protocol):
    """One running container, in which an agent works or is graded."""

    @property
    def id(self) -> str:
        """The engine's id, for people who want to look inside."""

    @property
    def image(self) -> ImageRecord:
        """Record of the image it was started from."""

    def exec(
        self,
        argv: Iterable[str],
        *,
        timeout: float,
        sink: Sink,
        stdout: Sink | None = None,
        user: str | None = None,
        workdir: str | None = None,
        env: Mapping[str, str] | None = None,
        silent: float | None = None,
        stopping: Stopping | None = None,
        stdin: Stdin | None = None,
    ) -> ExecResult:
        """Run a command to its end or its timeout (seconds). One that timed out runs on: `end_processes`.

        With `stopping`, one whose time is up is sent signals, and what it prints meanwhile still comes. It has timed
        out even if it then ends, and `exit_status` says with what.

        `silent`: it also times out when it has printed nothing for so many seconds.

        `sink` takes all output; `stdout`, if given, takes standard output once more, by itself: the two streams come
        in no certain order. `stdin`, which only one that `Serves` is given, writes to standard input; else that is
        closed. The end of the stream is not believed until the engine gives an exit status.
        """

    def put(self, files: Iterable[File]) -> None:
        """Put files in. One round trip."""

    def read(self, path: str, *, limit: int) -> bytes | None:
        """One regular file, or None when there is none. More than `limit` bytes is a ValueError."""

    def signal(self, pid: int, name: str) -> None:
        """Send a signal (`INT`, `TERM`) to the process group `pid`, as the sandbox numbers it. Never raises."""

    def processes(self) -> tuple[str, ...]:
        """Command lines of everything that runs beside the sandbox's own first process and what was adopted."""

    def adopt_processes(self) -> tuple[str, ...]:
        """Take what runs now for the scenario's own, not the agent's; returns the command lines that are new."""

    def end_commands(self, variable: str) -> tuple[str, ...]:
        """Kill commands that `exec` gave the variable `variable`, and their children that were not made daemons.

        Returns the command lines of what was killed. Nothing for an agent that is not trusted to die.
        """

    def end_processes(self) -> None:
        """Kill every process there is, with no help from inside, and be ready for `exec` again; or raise Ungradable.

        An ENTRYPOINT that had left something running is started once more, and waited for. Cheap where there is
        nothing to kill: between scorers, call it.
        """

    def tampered(self) -> tuple[str, ...]:
        """Return paths outside of the workdir that an agent changed, removed, or added to programs."""

    def set_network(self, network: Network, allowed_hosts: Iterable[str] = ()) -> None:
        """Switch to another network while running. `allowlist` needs `SandboxSpec.limited`."""

    def refused(self) -> tuple[str, ...]:
        """Return lines about connections that its allowlist did not permit, since this was last asked."""

    def keep(self, name: str) -> str:
        """Keep the file system as it is now under `name`, which is unique; returns what `SandboxSpec.kept` takes.

        Nothing should be running. What is in memory (tmpfs) and in volumes of the image is not part of it. Values of
        the environment's variables are not kept with it: they may be secrets.
        """

    def kill(self) -> None:
        """End it at once, from any thread; a blocked call in the trial's thread then returns. Never raises."""

    def remove(self) -> None:
        """Remove it and all that came with it, without waiting. Never raises."""

    def limit_hit(self) -> str | None:
        """The limit (`storage`) that was exceeded up to now, for which the provider killed the processes."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Requests of the scenario that it does not fulfil, for the trial's result. May grow until it is removed."""


@runtime_checkable
class HasServices(Protocol):
    """A sandbox that can have services beside it. Others do not have the method."""

    def service(self, name: str) -> Service:
        """Return a service, or raise EnvironmentFailed: there is none of this name."""


@runtime_checkable
class Watches(Protocol):
    """A sandbox that tells by its files what an agent did. Others do not have the method."""

    def watch(self) -> None:
        """Note how files are now, before the agent, for `tampered`. What was noted first stays."""


class SandboxProvider(Protocol):
    """Source of sandboxes. One per process; thread-safe.

    Made of an `Owner`, this process. A class with a pydantic model `Settings` is made of an instance of it, too:
    of what `--bench-sandbox-option KEY=VALUE` gives.
    """

    def check(self) -> None:
        """Make sure the engine answers, or raise EngineUnavailable with what to do about it."""

    def machine(self) -> str:
        """The architecture that programs in sandboxes are for, as `uname -m` says it: `x86_64`, `aarch64`. Cached."""

    def lacks(self, runtime: str | None = None) -> Mapping[Promise, str]:
        """Return what its sandboxes cannot promise, each with the reason. Asks the engine at most once.

        `runtime`: theirs, which only a provider that `HasRuntimes` is given; None: the usual one.

        EngineUnavailable: the engine does not answer.
        """

    def incompatible(self, scenario: Scenario, config: JobConfig) -> str | None:
        """Return why such sandboxes are not for a scenario, which is skipped: `incompatible: needs an image`. Pure.

        `config` is the job's, as it is for the scenario's benchmark. None: nothing is known to be missing.
        """

    def identify(self, request: ImageRequest) -> str | None:
        """`ImageRecord.key` of the image that would be taken, without pulling, building or starting anything.

        None: it cannot be told, because an image is not here. Cheap: what was found is remembered. Raises
        InfrastructureError also where a Dockerfile cannot be read.
        """

    def start(self, spec: SandboxSpec, on_phase: Callable[[str], None]) -> Sandbox:
        """Resolve or build the image, create, fill and start. Calls `on_phase` with `image`, then `start`.

        While it waits for an image it calls `on_phase` with `image` several times a second: that raises where the trial
        is to stop, and whatever goes on has to be broken off.
        """

    def kept(self) -> list[Kept]:
        """Return what was kept of trials, the oldest first; by whatever process of whichever project."""

    def forget_kept(self, reference: str) -> bool:
        """Remove what was kept. False: it is not there, or cannot be removed now. Never raises."""

    def sweep(self, *, shared: bool = False) -> int:
        """Remove what dead processes of this machine left behind; returns how many things.

        `shared`: also what trials share, and none uses now. EngineUnavailable: the engine does not answer.
        """

    def close(self) -> None:
        """Remove whatever this process still has, and let go of the engine."""


@runtime_checkable
class HasRuntimes(Protocol):
    """A provider whose engine runs containers by one of several runtimes. Others do not have the method."""

    def runtimes(self) -> tuple[str, ...]:
        """Return the names of the runtimes, the usual one first. EngineUnavailable: the engine does not answer."""


@runtime_checkable
class Diagnoses(Protocol):
    """A provider that can check the engine behind it, for `benchjobs doctor`. Others do not have the method."""

    def findings(self) -> Iterator[Finding]:
        """Check an engine that answers; nothing is left of what that takes. InfrastructureError: it fails."""


@runtime_checkable
class Opens(Protocol):
    """A provider whose kept file systems people can look into. Others do not have the method."""

    def open(
        self,
        reference: str,
        command: Sequence[str],
        *,
        labels: Mapping[str, str],
        user: str | None = None,
        env: Mapping[str, str],
        network: Network,
        welcome: str,
    ) -> int:
        """Run a command in a new sandbox that starts from what was kept, on our own streams; return its exit status.

        Without a command, a shell, which is announced with `welcome` where it has a terminal. Nothing is left of the
        sandbox. Raises InputError where our streams cannot be passed on, else an InfrastructureError.
        """


class ImageSupply(Protocol):
    """Images of one job, which are brought ahead of its trials. Thread-safe.

    A place is that of a scenario in the order in which the job's trials run.
    """

    def bring(self, environment: Environment, check: Callable[[], object]) -> bool:
        """Have an image here before its trial needs it; False: there is no room for it now.

        `check` is called several times a second; what it raises breaks off whatever goes on. Raises InfrastructureError
        also where there is no such image.
        """

    def expect(self, place: int, environments: Sequence[Environment]) -> None:
        """Note that trials to come need these images; the first is that of the agent."""

    def begin(self, place: int, environments: Sequence[Environment]) -> None:
        """Note that a trial begins which needs these images."""

    def end(self, place: int, *, last: bool) -> None:
        """Note that a trial has ended, the last of its scenario or not."""


class ImageBuilder(Protocol):
    """Finds, pulls and builds images, whatever runs them then. Thread-safe.

    Every method raises an `InfrastructureError`, also where a Dockerfile cannot be read.
    """

    def identify(self, request: ImageRequest) -> str | None:
        """What `SandboxProvider.identify` returns, for a provider that has this builder."""

    def ensure(self, request: ImageRequest, check: Callable[[], object]) -> str:
        """Have an image where engines get it, and return its name by digest: `HOST/PATH@sha256:...`.

        An image that is in no registry is pushed to that of the request; without one, it is the image's id on the
        builder's own engine. `check` is called several times a second; what it raises breaks off whatever goes on.
        """

    def weigh(self, request: ImageRequest, *, ask: bool) -> ImageSize:
        """Return the size of the image that would be taken, without pulling or building anything.

        Known is what is here, and what was remembered. `ask`: also ask registries, which may take seconds, and remember
        what they say.
        """

    def supply(self, job: str, config: JobConfig) -> ImageSupply:
        """Return the images of the job with this id, to be brought with its settings."""


@runtime_checkable
class NeedsImages(Protocol):
    """A provider whose sandboxes need images. Others have no builder."""

    @property
    def builder(self) -> ImageBuilder:
        """What brings and weighs them."""
