"""Files of an image, as overlayfs shows them: equal without being read, until something is done to them."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterable, Iterator, Sequence

import docker
import pytest

from pytest_benchjobs.sandbox.carry.compare import Comparison
from pytest_benchjobs.sandbox.carry.records import Kind, records
from pytest_benchjobs.sandbox.carry.transfer import Place, carry
from pytest_benchjobs.sandbox.docker.container import DockerSandbox
from pytest_benchjobs.sandbox.docker.provider import DockerProvider
from pytest_benchjobs.sandbox.program import PROGRAM
from tests.support import IMAGE
from tests.unit.carrying import run

from .built import build
from .sandboxes import out, started

pytestmark = pytest.mark.docker

TREE = """\
mkdir -p /tree/deep/er /tree/one /tree/two /tree/gone && cd /tree
for name in read touched moded owned mapped linked; do echo $name > $name; done
echo x > one/file; echo y > two/file; echo z > gone/file; echo deep > deep/er/file; echo a > a; echo b > b
"""
CHANGE = """\
cd /tree; cat read >/dev/null
touch -r read touched; touch -d 1999-01-01 touched; chmod 600 moded; chown 7:7 owned; ln linked further
perl -e 'open F, "+<", "mapped"; syswrite F, "MAPPED\\n"; close F'; touch -r read mapped
mv one tmp; mv two one; mv tmp two; mv a tmp; mv b a; mv tmp b; rm -r gone; mkdir new; echo n > deep/er/new
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory, client: docker.APIClient) -> Iterator[str]:
    """An image with a tree."""
    tag = f"benchjobs/test-carry:{secrets.token_hex(4)}"
    script = TREE.replace("\n", "; ").rstrip("; ")
    build(tmp_path_factory.mktemp("image"), f"FROM {IMAGE}\nRUN {script}\n", tag)
    yield tag
    with contextlib.suppress(docker.errors.NotFound):
        client.remove_image(tag, force=True)


def place(sandbox: DockerSandbox) -> Place:
    """Run the program in a container."""

    def run_there(arguments: Sequence[str | bytes], stdin: Iterable[bytes]) -> Iterator[bytes]:
        return run(["docker", "exec", "-i", "-u", "root", sandbox.id, PROGRAM, *arguments], stdin)

    return run_there


def difference(agent: DockerSandbox, fresh: DockerSandbox) -> tuple[dict[str, str], int]:
    """Return what differs (name -> kind of step), and how many contents have to be compared."""
    comparison = Comparison(
        *(b"".join(place(one)(["walk", str(1 << 20), "/tree"], ())) for one in (agent, fresh))
    )
    comparison.run()
    found = {
        step.name.decode(): chr(step.kind)
        for step in records(comparison.script.written)
        if step.kind not in (Kind.ROOT, Kind.ENTER, Kind.LEAVE)
    }
    return found, comparison.checks


def test_a_file_of_an_image_is_equal_until_something_is_done_to_it(
    provider: DockerProvider, image: str
) -> None:
    with started(provider, image=image) as agent, started(provider, image=image) as fresh:
        assert difference(agent, fresh) == ({}, 0)
        out(agent, CHANGE)
        changed, _ = difference(agent, fresh)
        assert set(changed) == {
            "touched", "moded", "owned", "linked", "further", "mapped", "a", "b", "file", "gone", "new",
        }  # fmt: skip
        carry(place(agent), place(fresh), ["/tree"])
        seen = "cd /tree; find . -printf '%p %y %m %U:%G %T@ %l\\n' | sort; find . -type f -exec md5sum {} + | sort"
        assert out(fresh, seen) == out(agent, seen)
        carry(place(agent), place(fresh), ["/tree"])
        assert out(fresh, seen) == out(agent, seen)


AGENT = """\
cd /; touch -r /bin/true /x; cp /bin/false /bin/true; touch -r /x /bin/true; rm /x /etc/hostname.d /tree/a
echo x >> /etc/profile; mv /tree/one /tree/1; chmod 700 /tree/deep; cat /etc/passwd >/dev/null; rm -r /tree/gone
echo > /usr/local/bin/beside; chmod +x /usr/local/bin/beside; echo > /etc/profile.d/no-suffix; echo > /root/.gitconfig
mkdir -p /root/.local/lib/python3/site-packages /root/.cache/x; echo > /root/.local/lib/python3/site-packages/a.py
echo > /root/.cache/x/data; echo > /root/notes; echo > /tmp/a.py; mkdir /app/bin; echo > /app/bin/x.py
echo more >> /opt/made/deep/tool
"""


def test_what_is_done_outside_of_the_workdir_is_told(provider: DockerProvider, image: str) -> None:
    made = "mkdir -p /opt/made/deep; touch /opt/made/deep/tool"
    for set_up in ("touch /etc/hostname.d /etc/profile.d/x.sh", "touch /etc/profile.d/x.sh /etc/hostname.d"):
        with started(provider, image=image) as sandbox:
            out(sandbox, f"{set_up}; {made}")
            sandbox.watch()
            assert sandbox.tampered() == ()
            out(sandbox, AGENT)
            sandbox.watch()
            changed = {
                "/etc/hostname.d", "/etc/profile", "/opt/made/deep/tool", "/tree/a", "/tree/deep", "/tree/gone", "/tree/one",
                "/usr/bin/true",
            }  # fmt: skip
            added = {"/etc/profile.d/no-suffix", "/root/.gitconfig", "/root/.local", "/usr/local/bin/beside"}
            assert set(sandbox.tampered()) == changed | added
            with sandbox.inside():
                assert set(sandbox.tampered()) == changed | added


def test_what_is_kept_of_a_container_is_an_image_as_well(
    provider: DockerProvider, image: str, client: docker.APIClient
) -> None:
    with started(provider, image=image) as agent:
        out(agent, "cd /tree; echo more > new; echo changed > read")
        repository, _, version = image.partition(":")
        client.commit(agent.id, repository, f"{version}-kept")
    try:
        with (
            started(provider, image=f"{image}-kept") as one,
            started(provider, image=f"{image}-kept") as other,
        ):
            assert difference(one, other) == ({}, 0)
        with started(provider, image=image) as one, started(provider, image=f"{image}-kept") as other:
            assert difference(one, other)[0] == {"read": "F", "new": "X"}
    finally:
        client.remove_image(f"{image}-kept", force=True)
