"""One container of a Docker Engine: running commands in it, files in and out, and the end of it."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import enum
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ...model.endpoint import PROXY_VARIABLES
from ...model.errors import (
    ContainerEnded,
    ContainerLost,
    ContainerStartFailed,
    DiskFull,
    EngineError,
    EngineRefused,
    EnvironmentFailed,
    OutputLost,
    Ungradable,
)
from ...model.scenario import Network
from ..command_timeout import Drained, wait_fairly
from ..door import is_ours
from ..entrypoint import Entrypoint
from ..inside import CannotAct, Inside
from ..paths import DEFAULT_PATH, is_below
from ..program import PROGRAM
from ..protocol import ROOT, ExecResult, File, SandboxSpec, Sink, Stdin, Stopping
from ..relay import Relays
from ..runner import serving
from .answers import PAUSES
from .calling import Caller, CommandRefused, on_behalf_of
from .images import ResolvedImage
from .keeping import commit, packed, unpack
from .mountpoints import FILE, check_mount_points, kind_of, leads_to_small_file, stat_of
from .network import Joinable, in_network
from .processes import Process, Processes, send
from .running import NOT_STARTED, Death, Held, run_program
from .services import EngineServices
from .storage import nanoseconds
from .transfer import EngineContainer
from .watched import Watched, list_all
from .words import DISK_FULL, NO_COMMAND, OWN_FAULT

if TYPE_CHECKING:
    from ..proxy import Proxy
    from .compose.service import ServiceContainer
    from .compose.services import TrialServices

_KILLED = 137
_LATE_EVENT = 0.3
_HELD = 0.5
"""Seconds that the first output of a command is held back: it may be the engine's, about one that did not start."""
_TIDYING = 5.0
"""Seconds of patience with an engine that does not answer, where nothing depends on it."""
_ENDING = 30.0
_MARGIN = 1.0
"""Seconds before a container says that it was created: file systems read their clock now and then."""
_ACCOUNTS = {"/etc/passwd": b"root:x:0:0:root:/root:/bin/sh\n", "/etc/group": b"root:x:0:\n"}
_ACCOUNTS_LIMIT = 4 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class _Command:
    """A command to run, as `exec` takes it."""

    argv: tuple[str, ...]
    timeout: float
    sink: Sink
    stdout: Sink | None
    user: str
    workdir: str | None
    env: Mapping[str, str]
    silent: float | None
    stopping: Stopping | None
    stdin: Stdin | None

    @property
    def is_plain(self) -> bool:
        """True if our program can run it as the engine would."""
        with_more = (self.stdin, self.stopping, self.silent) != (None, None, None)
        return not with_more and "/" in self.argv[0] and self.user in ROOT

    def is_at_fault(self, words: str) -> bool:
        """Return True if the engine says that the command, its user or its directory is why it did not start.

        One that says it otherwise is asked several times: what remains so is the command's fault, too.
        """
        return words in OWN_FAULT and (self.argv[0] in words or "exec:" not in words)


class _Stage(enum.Enum):
    """Stage of a container: `WORKED_IN`, then `GRADED`, then `REMOVED`."""

    WORKED_IN = enum.auto()
    GRADED = enum.auto()
    """The agent's end has begun: what ends the container from now on was left by it."""
    REMOVED = enum.auto()


class _Program(enum.Enum):
    """Trust in our program inside, which root there may replace.

    OURS ──(a command of others)──▶ DOUBTED ──(all processes ended)──▶ STALE ──(put in anew)──▶ OURS
    """

    OURS = enum.auto()
    DOUBTED = enum.auto()
    """It may have been replaced. Put in anew, it may be replaced again by what still runs."""
    STALE = enum.auto()
    """It may have been replaced, and nothing is left that could do so again."""


class DockerSandbox(EngineContainer):
    """One running container. Its first process is ours: it ends all others when the engine says so."""

    def __init__(
        self,
        services: EngineServices,
        container: str,
        image: ResolvedImage,
        spec: SandboxSpec,
        workdir: str,
        first: File | None,
        note: str | None = None,
        proxy: Proxy | None = None,
        beside: TrialServices | None = None,
    ) -> None:
        super().__init__(services.engine, container, workdir)
        self._beside = beside
        self._proxy = proxy
        self._relays = Relays(self, spec.relayed, proxy)
        self._network: Network = spec.network
        self.image = image.record
        self._services = services
        self._events = services.events
        self._image = image
        self._spec = spec
        self._first = first
        """Our program, if there is one for the engine's machine: then the first process is ours."""
        self._program = _Program.OURS
        self._stage = _Stage.WORKED_IN
        self._processes = Processes(self._engine.client, container, self._engine.dialect)
        self._entrypoint: Entrypoint | None = None
        if spec.environment.keep_entrypoint and image.entrypoint:
            self._entrypoint = Entrypoint(
                self, image.entrypoint, spec.environment, has_first=first is not None
            )
        self._environment: frozenset[int] = frozenset()
        self._notes = [one for one in (image.note, note, *spec.notes) if one is not None]
        self._watched: Watched | None = None
        self._restarting = threading.Lock()
        self._own_kills = 0
        self._joins = begins_joined(services, spec, beside)
        """True if it joins the public network, and has no other."""
        self._limit: str | None = None

    def begin(self) -> None:
        """Fill and start the created container. Raises ContainerStartFailed: it does not start."""
        own = () if self._first is None else (self._first,)
        if own or self._spec.files:
            # The door, where there is one, is the same file.
            self.put(dict.fromkeys((*self._spec.files, *own)))
        if self._spec.delivered:
            with self._calling():
                self._services.deliveries.make_sure(name for _, name in self._spec.delivered)
        try:
            with self._calling():
                self._engine.client.start(self.id)
                if self._joins and self._network != "public":
                    self._leave()
        except EngineRefused as error:
            raise ContainerStartFailed(f"the container does not start: {error}") from error
        if self._spec.environment.storage is not None:
            self._services.storage.add(self.id, self._spec.environment.storage, self._over_storage)
        if self._proxy is not None:
            self._proxy.allow(self._spec.allowed_hosts if self._network == "allowlist" else None)
            self._relays.join_proxy()
        if self._image.holes:
            unpack(self)

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
        """Run a command to its end or its timeout (seconds), or until it printed nothing for `silent` seconds."""
        self._processes.forget_seen()
        argv = tuple(argv)
        stopping = self._relays.before(argv, stopping)
        command = _Command(
            argv, timeout, sink, stdout, user or self.user, workdir, env or {}, silent, stopping, stdin
        )
        if not is_ours(argv):
            self._program = _Program.DOUBTED
        if self._inside is not None and command.is_plain:
            try:
                return self._exec_inside(self._inside, command)
            except CannotAct:
                if command.argv[0] == PROGRAM:
                    self.ready_to_serve()
        for pause in (*PAUSES, None):
            held = Held(sink, stdout)
            if stdin is not None:
                held.release()  # what the engine has to say is no frame
            try:
                ended = self._exec_once(command, held)
            except CommandRefused as error:
                held.sink(error.words.encode())
                ended = ExecResult(NOT_STARTED[1], timed_out=False, seconds=0.0, started=False)
            except BaseException:
                held.release()
                raise
            if ended.started or pause is None or command.is_at_fault(held.text):
                break
            with self._calling():
                self._caller.note_again(f"start a command: {held.text}")
                self._caller.rest(pause)
        held.release()
        self._relays.after(argv)
        return ended

    def _exec_inside(self, inside: Inside, command: _Command) -> ExecResult:
        """Run a command below our program, as the engine would run it."""
        ooms, started = self._events.count(self.id, "oom"), time.monotonic()
        status = inside.run(
            command.argv,
            command.env,
            command.workdir or self.workdir,
            timeout=command.timeout,
            sink=command.sink,
            stdout=command.stdout,
        )
        self._caller.check()
        ended = ExecResult(None, timed_out=status is None, seconds=time.monotonic() - started)
        return ended if status is None else self._with_status(ended, status, ooms)

    def _exec_once(self, command: _Command, held: Held) -> ExecResult:
        """Run a command, which the engine may not be able to start."""
        ooms, execs = self._events.count(self.id, "oom"), self._commands
        proxied = PROXY_VARIABLES if self._network == "allowlist" else {}
        with self._attached(
            command.argv,
            held.sink,
            held.stdout_sink,
            command.stdin,
            environment={**proxied, **self._spec.environment.env, **command.env},
            user=command.user,
            workdir=command.workdir,
        ) as running:
            started = time.monotonic()

            def wait(deadline: float, silent: float | None, requested: Callable[[], bool] | None) -> Drained:
                why = running.wait(min(deadline, started + _HELD), silent, requested)
                if why is not Drained.ENDED:
                    held.release()
                return running.wait(deadline, silent, requested) if why is Drained.LATE else why

            why = wait_fairly(wait, started + command.timeout, command.silent, command.stopping)
        ended = ExecResult(
            None,
            timed_out=why is not Drained.ENDED,
            seconds=time.monotonic() - started,
            stopped=why is Drained.ASKED,
            silent=why is Drained.SILENT,
        )
        if running.status is None:
            return ended
        code, pid = running.status
        never_started = code in NOT_STARTED and not pid
        if never_started and not self._engine.dialect.remembers_commands:
            said = held.text in NO_COMMAND
            never_started = said and self._events.wait(self.id, "exec", execs, _LATE_EVENT) <= execs
            self._commands -= never_started
        if never_started:
            self._check_room(held.text)
        elif running.cut:
            raise OutputLost(f"the connection with a command broke before it ended, with status {code}")
        ended = dataclasses.replace(ended, started=not never_started, cut_short=running.early)
        return self._with_status(ended, code, ooms)

    @property
    def variables(self) -> Mapping[str, str]:
        """Variables that every command has, of the image and of the environment."""
        return {"PATH": DEFAULT_PATH, **self._image.env, **self._spec.environment.env}

    @property
    def user(self) -> str:
        """User that commands run as by default."""
        return self._image.user or "root"

    def ready_to_serve(self) -> bool:
        """Put our program in, which the agent may have replaced; False: there is none for such a machine."""
        if self._first is None:
            return False
        if self._program is not _Program.OURS and not (self._spec.trusted and self._has(self._first)):
            self._put_program()
            if self._program is _Program.STALE:
                self._program = _Program.OURS
        return True

    def _put_program(self) -> None:
        if self._first is not None:
            self.put_from_outside([self._first])

    def _has(self, file: File) -> bool:
        """Return True if there is a file of this size in bytes."""
        with self._calling():
            found = stat_of(self._engine.client, self.id, file.path)
        return found is not None and (kind_of(found), found["size"]) == (FILE, len(file.content or b""))

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Meanwhile, have our program do what takes a call of the engine each, as far as it can."""
        if self._first is None:
            yield
            return
        with contextlib.closing(Inside(lambda: serving(self, "open"))) as self._inside:
            try:
                yield
            finally:
                self._inside = None

    def watch(self) -> None:
        """Note how files are now, before the agent, for `tampered`."""
        if self._first is not None and self._watched is None:
            self._watched = Watched.begin(self._services.untouched, self, self._spec)

    def tampered(self) -> tuple[str, ...]:
        """Return paths outside of the workdir that an agent changed, removed, or added to programs."""
        if self._watched is None or (self._inside is None and not self.ready_to_serve()):
            return ()
        return self._watched.changed(self, self.workdir)

    def clock(self) -> tuple[float, float]:
        """Return when it was created, or a little earlier, and the time now, or a little later, by its own clock."""
        with self._calling():
            created = self._engine.client.inspect_container(self.id)["Created"]
            now = None if self._engine.local else self._engine.client.info()["SystemTime"]
        return _seconds(created) - _MARGIN, time.time() if now is None else _seconds(now)

    def signal(self, pid: int, name: str) -> None:
        """Send a signal to the process group `pid`, as the sandbox numbers it. Never raises."""
        if not self._caller.stopped.is_set():
            send(self._engine, self.id, pid, name)

    def await_entrypoint(self, check: Callable[[], None]) -> None:
        """Start the image's own ENTRYPOINT, if it is kept, and wait until it is ready; see `Entrypoint.start`."""
        if self._entrypoint is not None:
            self._entrypoint.start(check)
            self.adopt_processes()

    def cpu_seconds(self) -> float:
        """Return what everything in it has used so far."""
        with self._calling():
            return self._processes.cpu_seconds()

    def processes(self) -> tuple[str, ...]:
        """Command lines of everything but the first process and what was adopted."""
        self._close_inside()
        return tuple(row.command for row in self.running() if row.pid not in self._environment)

    def adopt_processes(self) -> tuple[str, ...]:
        """Take what runs now for the scenario's own; returns the command lines that are new."""
        running = self.running()
        new = tuple(row.command for row in running if row.pid not in self._environment)
        self._environment = frozenset(row.pid for row in running)
        return new

    def end_commands(self, variable: str) -> tuple[str, ...]:
        """Kill commands that were given `variable`, and their children that were not made daemons."""
        self._close_inside()
        before = self._others(seen=True)
        self._stage = _Stage.GRADED
        if before is None:
            # The agent ended the container, and everything with it.
            self.end_processes()
        if not before:
            return ()
        self._mend_accounts()
        if self._inside is None and not self.ready_to_serve():
            self.end_processes()
        else:
            run_program(self, "end", variable, timeout=_ENDING)
        left = {row.pid for row in self.running()}
        return tuple(row.command for row in before if row.pid not in left)

    def _mend_accounts(self) -> None:
        """Replace tables of users that an engine cannot read: it reads them for each command, and a pipe has no end."""
        with self._calling():
            broken = [
                File(path, content=content, clean=True)
                for path, content in _ACCOUNTS.items()
                if not leads_to_small_file(self._engine.client, self.id, path, _ACCOUNTS_LIMIT)
            ]
        if broken:
            self.put_from_outside(broken)

    def end_processes(self) -> None:
        """Kill every process there is, with no help from inside, and be ready for `exec` again."""
        self._end_all()
        if self._program is _Program.DOUBTED:
            self._program = _Program.STALE
        self._mend_accounts()
        self._stage = _Stage.GRADED
        self._environment = frozenset()
        if self._entrypoint is not None and self._entrypoint.serves:
            self._put_program()
            if (problem := self._entrypoint.start_again(self._caller.check)) is not None:
                self._notes.append(problem)
            self.adopt_processes()

    def _close_inside(self) -> None:
        """End our own commands, but for the first process."""
        if self._inside is not None:
            self._inside.close()
        self._relays.close()

    def running(self) -> list[Process]:
        """Everything but the first process; nothing where an agent has ended the container from inside."""
        ours = (
            frozenset[str]() if self._relays.agent_worked else self._relays.commands
        )  # an agent may call itself so
        return [row for row in self._others() or [] if row.command not in ours]

    def _others(self, *, seen: bool = False) -> list[Process] | None:
        with self._services.storage.unmeasured(self.id), self._calling():
            return self._processes.others(seen=seen)

    def _with_status(self, ended: ExecResult, code: int, ooms: int) -> ExecResult:
        """Return how a command ended whose exit status is known; `ooms` had been killed for memory before it."""
        if code == _KILLED:
            self._make_sure_it_lives()
        oom_kills = self._events.count(self.id, "oom") - ooms
        if code != 0 and not oom_kills and self._spec.environment.memory is not None:
            patience = _LATE_EVENT if code == _KILLED else _LATE_EVENT / 6
            oom_kills = self._events.wait(self.id, "oom", ooms, patience) - ooms
        return dataclasses.replace(ended, exit_status=code, oom_kills=max(0, oom_kills))

    def _death(self) -> Death:
        seen = self._events.count(self.id, "die")

        def status() -> tuple[int, int] | None:
            nonlocal seen
            if (deaths := self._events.count(self.id, "die")) <= seen:
                return None
            with self._calling():
                state = self._engine.client.inspect_container(self.id)["State"]
            seen = deaths  # of one that was started anew the event may come late
            if state["Running"] or state["ExitCode"] != _KILLED:
                return None
            return _KILLED, 0

        return status

    def _end_all(self) -> None:
        """By the first process, or by ending it and so the process namespace."""
        self._close_inside()
        with self._restarting, self._calling():
            if self._first is None or not self._processes.end_all():
                self._restart(runs=self._engine.client.inspect_container(self.id)["State"]["Running"])

    def _restart(self, *, runs: bool) -> None:
        """End the process namespace, and start it anew."""
        client = self._engine.client
        self._relays.close()
        if runs:
            self._own_kills += 1
            client.kill(self.id)
        self._put_program()
        mounted = {mount.target: mount.source.is_dir() for mount in self._spec.mounts}
        mounted |= dict.fromkeys((target for target, _ in self._spec.delivered), True)
        if mounted:
            check_mount_points(client, self.id, mounted)
        client.start(self.id)
        if self._joins and self._network != "public":
            self._joined("public")  # its loopback comes up with a network
            self._leave()
        self._processes.forget_first()
        self._relays.join_proxy()  # its loopback is a new one

    def set_network(self, network: Network, allowed_hosts: Iterable[str] = ()) -> None:
        """Switch between `public`, `none` and `allowlist` while running."""
        self._close_inside()  # it has the variables of the other one
        if network == "allowlist" and self._proxy is None:
            raise EngineError("this container was not started for the network `allowlist`")
        # To the engine an allowlist is no network.
        if network != self._network and "public" in (network, self._network):
            self._join(network)
        self._network = network
        if self._proxy is not None:
            self._proxy.allow(allowed_hosts if network == "allowlist" else None)

    def refused(self) -> tuple[str, ...]:
        """Return lines about connections that its allowlist did not permit, since this was last asked."""
        return () if self._proxy is None else self._proxy.refused()

    def _leave(self, network: Network = "public") -> None:
        left = self._services.network.of(network, self._image.id)
        self._engine.client.disconnect_container_from_network(self.id, left.name)

    def _join(self, network: Network) -> None:
        with self._calling():
            if network != "public" or not self._joins:
                self._leave("none" if network == "public" else "public")
            if network != "public" and self._joins:
                return
            if network == "none" and self._beside is not None and self._beside.joined().networks:
                return  # the engine gives no container both that and the network of its services
            wanted = in_network(self._services.network, lambda: self._joined(network))
            if wanted.note is not None and wanted.note not in self._notes:
                self._notes.append(wanted.note)

    def _joined(self, network: Network) -> Joinable:
        wanted = self._services.network.of(network, self._image.id)
        self._engine.client.connect_container_to_network(self.id, wanted.name)
        return wanted

    def keep(self, name: str) -> str:
        """Keep the file system as it is now, as an image of the engine."""
        if self._beside is not None:
            raise EngineError("it has services, whose containers and volumes cannot be kept with it")
        with self._calling():
            about = self._engine.client.inspect_container(self.id)
        volumes = [str(one["Destination"]) for one in about["Mounts"] if one.get("Type") == "volume"]
        if is_below(self.workdir, volumes):
            raise EngineError(f"its workdir {self.workdir} is in a volume, which is not kept with it")
        if volumes:
            self._notes.append(f"not kept with it: what is in volumes ({', '.join(sorted(volumes))})")
        self._put_program()
        listing = b"" if self._first is None else list_all(self)
        in_use = bool(self.running())
        with (
            packed(self, listing, nanoseconds(str(about["Created"])), in_use=in_use) as holes,
            self._calling(),
        ):
            return commit(self._engine, self.id, name, self._image, self._spec, holes=holes)

    def kill(self) -> None:
        """End it at once, from any thread. Never raises."""
        # First the calls that go on, lest an engine that hangs hangs us too.
        self._caller.stop()
        with contextlib.suppress(Exception), on_behalf_of(Caller(patience=_TIDYING)):
            self._engine.client.kill(self.id)

    def remove(self) -> None:
        """Remove it and all that came with it, without waiting. Never raises."""
        self.remove_alone()
        if self._beside is not None:
            self._beside.remove()

    def service(self, name: str) -> ServiceContainer:
        """Return the container of a service beside this one. Raises EnvironmentFailed: there is none of this name."""
        if self._beside is None:
            raise EnvironmentFailed(f"there is no service {name!r}: the environment has no `compose`")
        with self._calling():
            return self._beside.find(name)

    def remove_alone(self) -> None:
        """Remove the container, and leave its services: it is to be started once more. Never raises."""
        if self._stage is _Stage.REMOVED:
            return
        self._relays.close()
        if self._proxy is not None:
            self._proxy.close()
        try:
            with on_behalf_of(Caller(patience=_TIDYING)):
                self._engine.client.remove_container(self.id, force=True, v=True)
        except Exception:
            return  # `close` tries again, then the reaper
        self._stage = _Stage.REMOVED
        self._services.forget(self.id)

    def limit_hit(self) -> str | None:
        """The limit (`storage`) that was exceeded, as measured now; then all processes are killed."""
        most = self._spec.environment.storage
        if self._limit is None and most is not None:
            try:
                self._put_program()
                with self._calling():
                    over = self._services.storage.is_over(self.id, most)
            except ContainerEnded:
                # It is started anew before it is graded; until then nothing runs in it that could measure.
                with self._calling():
                    over = self._services.storage.size(self.id) > most
            if over:
                self._over_storage()
        return self._limit

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on what became of it on the way, and of its services."""
        return (*self._notes, *(() if self._beside is None else self._beside.notes))

    @property
    def engine_retries(self) -> tuple[str, ...]:
        """A line for each call of the engine that was made again."""
        return tuple(self._caller.again)

    @contextlib.contextmanager
    def _calling(self) -> Iterator[None]:
        self._caller.check()
        try:
            with self._engine.guard(self._caller):
                yield
        except ContainerLost as error:
            if self._stage is _Stage.GRADED and self._ended_from_inside():
                raise Ungradable(
                    "what the agent left running ended the container while it was graded"
                ) from error
            raise

    def _ended_from_inside(self) -> bool:
        """Return True if its first process was killed without the engine being asked."""
        kills, own = self._kills()
        try:
            state = self._engine.client.inspect_container(self.id)["State"]
        except Exception:
            return False
        return kills <= own and state["Status"] == "exited" and state["ExitCode"] == _KILLED

    def _check_room(self, output: str) -> None:
        """Raise if a command could not be started for want of room for its output or its processes."""
        if output in DISK_FULL:
            raise DiskFull(f"the Docker Engine's disk is full: {output}")
        with self._calling():
            pids = self._processes.count()
        if pids is not None and pids[0] >= pids[1]:
            raise EnvironmentFailed(
                f"the container has reached its limit of processes (`pids`: {pids[1]}): {output}"
            )

    def _make_sure_it_lives(self) -> None:
        """Raise if the command died because somebody killed the container. That comes through the engine, ours too."""
        kills, own = self._kills()
        if kills > own and self._limit is None:
            raise ContainerLost("the container was killed or removed by something else")

    def _kills(self) -> tuple[int, int]:
        """Return how often the engine was asked to kill the container, and how often of these by us."""
        own = self._own_kills + (0 if self._engine.dialect.tells_signals else self._processes.signals)
        return self._events.wait(self.id, "kill", own, _LATE_EVENT), own

    def _over_storage(self) -> None:
        self._limit = "storage"
        self._end_all()


def begins_joined(services: EngineServices, spec: SandboxSpec, beside: TrialServices | None) -> bool:
    """Return True if a container begins with the public network, to be without it until it is wanted."""
    opened = spec.opened or spec.network == "public"
    return opened and beside is None and not services.engine.dialect.joins_any


def _seconds(time: str) -> float:
    """Return a time as the engine writes it."""
    return datetime.datetime.fromisoformat(time).timestamp()
