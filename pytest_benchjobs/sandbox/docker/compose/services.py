"""The services of one trial: their networks, volumes and containers, from their start to their removal."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import secrets
import shlex
import time
from collections.abc import Callable, Mapping, Sequence

from ....model.errors import EngineError, EnvironmentFailed, InfrastructureError
from ....model.escape import escaped
from ....model.scenario import MAIN, Environment
from ....sources.compose import variables
from ....system.cutting import end_of
from ...program import program_file
from ...protocol import SandboxSpec
from ..calling import NetworkGone
from ..engine import LABEL, Engine
from ..images import ResolvedImage, combined_key
from ..library import ERRORS
from ..network import in_network, make_trial_network
from ..pulling import rest
from ..services import EngineServices
from .plugin import Plugin
from .project import Main, Project, least, read_project
from .service import ServiceContainer, service_container

PROJECT = f"{LABEL}project"
"""Label of everything that services of one trial have."""
_OF_COMPOSE = "com.docker.compose.service"
_SAID = 1000
_TRIES = 3
_PAUSES = (0.5, 2.0)


class TrialServices:
    """Services beside the container of one trial.

    `labels` are of everything that is made. `on_phase` is called several times a second with the step that goes on;
    what it raises breaks that off.
    """

    def __init__(
        self,
        services: EngineServices,
        spec: SandboxSpec,
        labels: Mapping[str, str],
        on_phase: Callable[[str], object],
    ) -> None:
        compose = spec.environment.compose
        assert compose is not None  # noqa: S101  callers have looked
        self._engine: Engine = services.engine
        self._services = services
        self._spec = spec
        self.id = f"bench-{secrets.token_hex(8)}"
        self._labels = {**labels, PROJECT: self.id}
        self._plugin = Plugin(compose.file, self._engine.environment)
        self._on_phase = on_phase
        filled = {**variables(compose.file.parent, spec.environment), **spec.environment.env}
        self.project: Project = read_project(
            self._plugin.normalise(filled, lambda: on_phase("image")), compose.file
        )
        self._description = ""
        self._image = ""
        """An image that is here."""
        self.notes: list[str] = []
        """Notes on services that ended with an error before they were removed."""
        self._removed = False

    def environment(self) -> Environment:
        """Return the environment of the trial, with what the file adds to `main`; limits are the least of both."""
        own, main = self._spec.environment, self.project.main
        past_proxy = {}
        if self._spec.limited:
            names = (name for aliases in main.networks.values() for name in aliases)
            past = ",".join(("localhost,127.0.0.1,::1", *dict.fromkeys((*names, *self.project.services))))
            past_proxy = dict.fromkeys(("NO_PROXY", "no_proxy"), past)
        return own.model_copy(
            update={
                "env": {**past_proxy, **main.env, **own.env},
                "memory": least(own.memory, main.memory),
                "cpus": least(own.cpus, main.cpus),
                "keep_entrypoint": own.keep_entrypoint or bool(main.entrypoint or main.command),
            }
        )

    def image(self, image: ResolvedImage, keys: Mapping[str, str]) -> ResolvedImage:
        """Return the image of `main`, with what the file says in place of its configuration, and of other images.

        `keys` are the `ImageRecord.key` of services' images.
        """
        main = self.project.main
        entrypoint = image.entrypoint if main.entrypoint is None else main.entrypoint
        if main.command:
            # It goes on beside the command of an ENTRYPOINT.
            entrypoint = (*entrypoint, "/bin/sh", "-c", f'{shlex.join(main.command)} & exec "$@"', "sh")
        return dataclasses.replace(
            image,
            record=image.record.model_copy(update={"key": combined_key(image.record.key, keys)}),
            workdir=main.workdir or image.workdir,
            user=main.user or image.user,
            entrypoint=entrypoint,
        )

    def begin(self, images: Mapping[str, ResolvedImage]) -> None:
        """Make networks and volumes, and start the services that do not wait for `main`. Their health is waited for.

        A service that does not start, ends, or is not healthy is an `EnvironmentFailed`.
        """
        project = self.project
        self._on_phase("start")
        for name in project.networks:
            make_trial_network(self._engine, f"{self.id}-{name}", self._labels)
        with self._engine.guard():
            for name in project.volumes:
                self._engine.client.create_volume(f"{self.id}-{name}", labels=self._labels)
        if not project.services:
            return
        ids = {name: image.id for name, image in images.items()}
        self._description = project.description(self.id, ids, self._labels, self._spec)
        self._image = next(iter(images.values())).id
        self._start([name for name in project.services if name not in project.after_main])

    def after_main(self) -> None:
        """Start the services that wait for `main`."""
        self._start(sorted(self.project.after_main))

    def joined(self) -> Main:
        """Return what the container of the trial has of them, with the engine's names of networks and volumes."""
        main = self.project.main
        return dataclasses.replace(
            main,
            networks={f"{self.id}-{name}": aliases for name, aliases in main.networks.items()},
            volumes=tuple((f"{self.id}-{name}", target, only) for name, target, only in main.volumes),
        )

    def find(self, name: str) -> ServiceContainer:
        """Return the container of a service, which may have ended; an `EnvironmentFailed`, if there is none."""
        for container, service in self._containers().items():
            if service == name:
                return service_container(self._engine, container)
        named = ", ".join((MAIN, *self.project.services))
        raise EnvironmentFailed(f"{self.project.file}: there is no service {name!r}; it has {named}")

    def remove(self) -> None:
        """Remove everything, without asking services to end. Never raises."""
        for _ in range(0 if self._removed else _TRIES):
            with contextlib.suppress(InfrastructureError, *ERRORS, OSError):
                self._remove()
                self._removed = True
                self._services.forget(self.id)
                return
            time.sleep(0.2)  # after the last, the sweep of a later process finds them

    def _start(self, names: Sequence[str]) -> None:
        """Start services, once more in a new network of public trials where others removed that meanwhile."""
        if names:
            in_network(self._services.network, lambda: self._start_once(names))

    def _start_once(self, names: Sequence[str]) -> None:
        try:
            self._create(names)
        except (EnvironmentFailed, EngineError, NetworkGone) as error:
            public = self._services.network.of(self._spec.network, self._image)
            if self._spec.network != "public" or self._engine.get(f"/networks/{public.name}") is not None:
                raise
            for container, service in self._containers().items():
                if service in names:
                    self._engine.client.remove_container(container, force=True, v=True)
            raise NetworkGone(str(error)) from error

    def _create(self, names: Sequence[str]) -> None:
        """Create containers, put files into them, and start them in their order."""
        timeout = self._spec.environment.setup_timeout
        self._call("create", "--no-build", names=names, timeout=timeout)
        self._fill(names)
        wait = ("--detach", "--wait", "--wait-timeout", str(max(1, int(timeout))))
        waiting = () if not self.project.waits or self.project.after_main.issuperset(names) else (MAIN,)
        as_made = ("--no-build", "--no-recreate", "--no-deps")
        self._call("up", *wait, *as_made, names=(*names, *waiting), timeout=timeout + 10)
        if self._spec.environment.storage is not None:
            for container, service in self._containers().items():
                over = functools.partial(self._over_storage, container, service)
                self._services.storage.add(container, self._spec.environment.storage, over)

    def _fill(self, names: Sequence[str]) -> None:
        """Put files into containers that were created, and connect them with the internet if the trial has it.

        Docker Compose would give a service its name also in the network of public trials, where it cannot be reached.
        """
        public = self._services.network.of("public", self._image) if self._spec.network == "public" else None
        for container, name in self._containers().items():
            if name not in names:
                continue
            files = self.project.files.get(name, ())
            if self._spec.environment.storage is not None and not self.project.services[name].get(
                "read_only"
            ):
                # It measures what they write.
                files = (*files, *filter(None, (program_file(self._services.engine.machine),)))
            if files:
                service_container(self._engine, container).put(files)
            if public is not None and self.project.services[name].get("networks"):
                with self._engine.guard():
                    self._engine.client.connect_container_to_network(container, public.name)

    def _call(self, *arguments: str, names: Sequence[str], timeout: float) -> None:
        """Have Docker Compose do something with services. It takes one for broken that has ended without an error."""
        check = functools.partial(self._on_phase, "start")
        pauses, done = [*_PAUSES], frozenset[str]()
        while {*(left := [name for name in names if name not in done])} - {MAIN}:
            status, said = self._plugin.call(
                self.id, self._description, *arguments, *left, timeout=timeout, check=check
            )
            if status == 0:
                return
            states = {name: self._state(container, name) for container, name in self._containers().items()}
            faults = [fault for fault, _ in states.values() if fault is not None]
            before = done
            # Where somebody waits for its health, a service may not end.
            done |= {name for name, (_, ended) in states.items() if ended} - self.project.healthy
            if not faults and done > before:
                continue
            # Where no container tells why, it may have been the engine: what Compose did already it does not do twice.
            if faults or not pauses:
                why = "; ".join(faults) or _line(said)
                raise EnvironmentFailed(f"{self.project.file}: the services do not start: {why}")
            rest(pauses.pop(0), check)

    def _state(self, container: str, name: str) -> tuple[str | None, bool]:
        """Return in words what is wrong with a container, and True if it has ended without an error."""
        client = self._engine.client
        with self._engine.guard():
            state = client.inspect_container(container)["State"]
        if state["Status"] == "running" and (state.get("Health") or {}).get("Status") == "unhealthy":
            log = state["Health"].get("Log") or [{}]
            return f"{name} is not healthy: {_line(str(log[-1].get('Output') or '')) or 'no output'}", False
        if state["Status"] != "exited" or state["ExitCode"] == 0:
            return None, state["Status"] == "exited"
        output = b""
        with contextlib.suppress(*ERRORS, OSError):
            output = client.logs(container, tail=20)
        memory = ", killed for memory" if state.get("OOMKilled") else ""
        said = _line(output.decode("utf-8", "replace")) or "no output"
        return f"{name} ended with status {state['ExitCode']}{memory}: {said}", False

    def _over_storage(self, container: str, name: str) -> None:
        self.notes.append(f"service {name} was killed: it wrote more than `storage` allows")
        with contextlib.suppress(InfrastructureError, *ERRORS):
            self._engine.client.kill(container)

    def _containers(self) -> dict[str, str]:
        """Return the ids of the containers, and the service of each."""
        label = [f"{PROJECT}={self.id}"]
        found = self._engine.get("/containers/json", all=True, filters={"label": label})
        return {one["Id"]: str((one.get("Labels") or {}).get(_OF_COMPOSE, "")) for one in found}

    def _remove(self) -> None:
        client = self._engine.client
        for container, service in self._containers().items():
            with contextlib.suppress(InfrastructureError):
                fault, _ = self._state(container, service)
                if fault is not None:
                    self.notes.append(f"service {fault}")
            self._services.forget(container)
            client.remove_container(container, force=True, v=True)
        for network in self.project.networks:
            client.remove_network(f"{self.id}-{network}")
        for volume in self.project.volumes:
            client.remove_volume(f"{self.id}-{volume}", force=True)


def _line(output: str) -> str:
    """Return the end of an output on one line, with nothing in it that could pass for anything else."""
    return escaped(end_of(" ".join(output.split()), _SAID))
