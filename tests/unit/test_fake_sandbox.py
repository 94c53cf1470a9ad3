"""The sandbox for tests of plugins keeps the promises of the protocol that such tests rely on."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_benchjobs.model.errors import ImageMissing
from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sandbox.protocol import ExecResult, SandboxSpec
from pytest_benchjobs.testing import FakeProvider, FakeSandbox


@pytest.fixture(autouse=True)
def _kept_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHJOBS_FAKE_KEPT", str(tmp_path / "kept"))


def _start(provider: FakeProvider, image: str = "one", kept: str | None = None) -> FakeSandbox:
    spec = SandboxSpec(
        environment=Environment(image=image),
        labels={"job": "j", "trial": "t", "bundle": "/b"},
        network="none",
        deadline=60,
        kept=kept,
    )
    return provider.start(spec, lambda phase: None)


def _sh(sandbox: FakeSandbox, script: str, **more: float) -> tuple[ExecResult, str]:
    output = bytearray()
    result = sandbox.exec(["sh", "-c", script], timeout=20, sink=output.extend, **more)
    return result, output.decode()


def test_what_is_kept_is_there_again_until_it_is_forgotten() -> None:
    provider = FakeProvider(current_owner())
    sandbox = _start(provider)
    _sh(sandbox, "echo done > /app/out.txt")
    reference = sandbox.keep("name")
    sandbox.remove()
    assert [(one.reference, one.job, one.trial, one.bundle) for one in provider.kept()] == [
        (reference, "j", "t", "/b")
    ]

    again = _start(provider, "two", reference)
    assert _sh(again, "cat out.txt")[1] == "done\n"
    assert again.image.key == "one"
    again.remove()

    assert provider.forget_kept(reference)
    assert not provider.forget_kept(reference)
    assert provider.kept() == []
    with pytest.raises(ImageMissing, match="--bench-keep"):
        _start(provider, "two", reference)
    provider.close()


def test_nothing_but_what_was_kept_can_be_forgotten(tmp_path: Path) -> None:
    (tmp_path / "kept.json").write_text("{}")
    assert not FakeProvider(current_owner()).forget_kept("fake-kept:../")
    assert (tmp_path / "kept.json").exists()


def test_an_image_is_known_by_its_name() -> None:
    provider = FakeProvider(current_owner())
    assert provider.identify(Environment(image="one"), {}, {}) == "one"
    assert provider.identify(Environment(image="one"), {"one": "two"}, {}) == "two"
    sandbox = _start(provider)
    assert sandbox.image.key == "one"
    sandbox.remove()


def test_a_silent_command_is_ended() -> None:
    provider = FakeProvider(current_owner())
    sandbox = _start(provider)
    result, output = _sh(sandbox, "echo first; sleep 19", silent=0.2)
    assert (result.timed_out, result.silent, output) == (True, True, "first\n")
    result, _ = _sh(sandbox, "echo first", silent=10)
    assert (result.timed_out, result.silent, result.exit_status) == (False, False, 0)
    sandbox.remove()
