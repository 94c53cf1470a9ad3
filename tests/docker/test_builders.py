"""Both builders: an image has the files of its own task, whatever other tasks are like, and of its context what Docker copies."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import docker
import docker.errors
import pytest

from pytest_benchjobs.model.errors import ImageBuildFailed
from pytest_benchjobs.model.scenario import Environment, ServiceImage
from pytest_benchjobs.sandbox.docker import build
from pytest_benchjobs.sandbox.docker.build import Recipe
from pytest_benchjobs.sandbox.docker.engine import Engine
from pytest_benchjobs.sandbox.docker.images import Images
from pytest_benchjobs.sandbox.protocol import ImageRequest
from tests.support import IMAGE

pytestmark = pytest.mark.docker

BUILDX = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "benchjobs-tests" / "buildx"
NAME = f"builders-{os.getpid()}"
PAIRS = int(os.environ.get("BENCHJOBS_PAIRS", "10"))
Use = Callable[[str], None]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch, client: docker.APIClient) -> Iterator[Use]:
    """Have images built by `classic` or `buildx`; they are gone afterwards."""

    def chosen(builder: str) -> None:
        if (
            builder == "buildx"
            and subprocess.run(("docker", "buildx", "version"), check=False).returncode != 0
        ):
            if not (BUILDX / "cli-plugins" / "docker-buildx").is_file():
                pytest.skip("docker buildx is not installed; scripts/plugin.sh buildx gets it")
            monkeypatch.setenv("DOCKER_CONFIG", str(BUILDX))
        monkeypatch.setattr(build, "has_buildx", lambda: builder == "buildx")

    yield chosen
    for image in client.images(filters={"label": "benchjobs.image"}):
        for tag in image["RepoTags"] or ():
            if tag.startswith(f"benchjobs/{NAME}"):
                with contextlib.suppress(docker.errors.ImageNotFound):
                    client.remove_image(tag, force=True)


@pytest.fixture
def images() -> Iterator[Images]:
    engine = Engine()
    yield Images(engine)
    engine.close()


def contents(client: docker.APIClient, image: str, path: str) -> dict[str, tuple[str, bytes]]:
    """What an image has at a path, and below it: mode and content by names."""
    container = client.create_container(image, ["true"])["Id"]
    try:
        stream, _ = client.get_archive(container, path)
        with tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as tar:
            return {
                member.name.partition("/")[2]: (
                    f"{member.mode:o}", file.read() if (file := tar.extractfile(member)) else b""
                )
                for member in tar
                if not member.issym()
            }  # fmt: skip
    finally:
        client.remove_container(container, force=True)


# Images of one's own files


def _task(directory: Path, which: str, base: str) -> Environment:
    """Write a task whose files have the names, sizes and times of those of all others."""
    directory.mkdir(parents=True)
    files = {
        "Dockerfile": f'FROM {base}\nLABEL which="{which}"\nCOPY what* /what/\n',
        "what.txt": which,
        ".dockerignore": which,
    }
    for name, text in files.items():
        (directory / name).write_text(text)
        os.utime(directory / name, (1_700_000_000, 1_700_000_000))
    return Environment(dockerfile=directory / "Dockerfile", context=directory)


WAYS = {
    "alone": lambda environment: (environment, {}),
    "parallel": lambda environment: (environment, {}),
    "compose": lambda one: (Environment(image=IMAGE).of_service(ServiceImage(dockerfile=one.dockerfile, context=one.context)), {}),
    "mapped": lambda environment: (environment, {"nowhere/base:1": IMAGE}),
}  # fmt: skip


@pytest.mark.parametrize("builder", ["buildx", "classic"])
@pytest.mark.parametrize("way", WAYS)
def test_no_image_has_files_of_another_task_with_the_same_names_sizes_and_times(
    use: Use, images: Images, client: docker.APIClient, tmp_path: Path, builder: str, way: str
) -> None:
    use(builder)
    base = "nowhere/base:1" if way == "mapped" else IMAGE
    tasks = {
        which: _task(tmp_path / f"{NAME}-{which}" / "environment", which, base)
        for pair in range(PAIRS)
        for which in (f"{pair:03}-one", f"{pair:03}-two")
    }

    def found(which: str) -> tuple[str, str]:
        environment, image_map = WAYS[way](tasks[which])
        image = images.resolve(ImageRequest(environment, image_map)).id
        copied = contents(client, image, "/what")["what.txt"][1].decode()
        return client.inspect_image(image)["Config"]["Labels"]["which"], copied

    with ThreadPoolExecutor(4 if way == "parallel" else 1) as pool:
        built = dict(zip(tasks, pool.map(found, tasks), strict=True))
    assert built == {which: (which, which) for which in tasks}


# What is ignored

TREE = [
    "a.txt", "A.txt", "b.py", "data/x.csv", "Data/y.csv", "sub/deep/z", "sub/deep/w.md", "sub/keep.txt", "node_modules/m/i.js", "x/node_modules/n", "!bang", "#hash", "[odd]", "with^", "back\\slash", "star*name", "a-b", "a.b+c", "spät", "d1", "empty/", "x/empty/", ".hidden", "x/.hidden", "Docs/a.md",
]  # fmt: skip
PATTERNS = [
    "data", "DATA", "/data", "data/", "./data/", "data/*", "data/**", "*.txt", "**/*.txt", "*/*.csv", "**", "*", "**/deep",
    "**deep", "sub/**/z", "sub/**", "?.txt", "[^a].txt", "[!a].txt", "[a-b]*", "[ab].py", "\\!bang", "!bang", "\\#hash", "#hash",
    "\\[odd]", "[[]odd]", "with^", "w*^", "sub\\/deep", "back\\\\slash", "star\\*name", "a.b+c", "a?b", "d\\d", "sp\u00e4t",
    "**/node_modules", "node_modules/../data", "..", ".", "/", "  data  ", "*\n!a.txt", "*\n!sub/keep.txt", "**\n!**/*.md",
    "sub\n!sub/deep\nsub/deep/z", "*\n!x\nx/empty", "!a.txt\n*.txt", "*\n! data", "\ufeffdata", "a.txt\r\nb.py\r\n", "data\n#Data",
    "**/.*", "em*y", "***", "x/**/n", "**/x/*", "a**", "a**t", "**a*", "*/", "!**", "**/\n!data/x.csv", "Docker*\n.dockerignore", "[*]",
    "[[:alpha:]].txt", "[[:upper:][:digit:]]*", "[^[:lower:]]*", "[[:^alpha:]]*", "[[:punct:]]*", "[[:alpha]*", "[:alpha:]*",
    "a[.]txt", "[\\]o.]*", "[a&&b].txt", "a.txt|b*", "a{1}*", "data|sub", "(a)*", "$*", "[[a].txt", "[~||a].txt", "a.b[+]c", "**|[x]",
]  # fmt: skip


REFUSED = ["[", "[[:digits:]]", "[[:digit:]", "[]a]", "[a", "a[^]", "[a-]", "a\\", "!", "data\n[]"]


@pytest.fixture
def context(tmp_path: Path) -> Path:
    """A build context of which an image has all, below /c."""
    context = tmp_path / NAME
    for name in TREE:
        path = context / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.write_text(name)
    (context / "Dockerfile").write_text("FROM scratch\nCOPY . /c/\n")
    return context


def _docker_build(
    client: docker.APIClient, context: Path, builder: str
) -> dict[str, tuple[str, bytes]] | None:
    """What is in the image that Docker itself makes of a context; None: it refuses."""
    command = ("docker", "buildx", "build", "--load") if builder == "buildx" else ("docker", "build")
    tag, env = f"{NAME}-own:1", {**os.environ, "DOCKER_BUILDKIT": "0"}
    built = subprocess.run(
        (*command, "-q", "-t", tag, "."), cwd=context, capture_output=True, check=False, env=env
    )
    if built.returncode != 0:
        return None
    try:
        return contents(client, tag, "/c")
    finally:
        client.remove_image(tag, force=True)


@pytest.mark.extended
@pytest.mark.parametrize("builder", ["buildx", "classic"])
def test_what_is_ignored_is_what_docker_ignores(
    use: Use, client: docker.APIClient, context: Path, builder: str
) -> None:
    use(builder)
    different = {}
    for pattern in (*PATTERNS, *REFUSED):
        (context / ".dockerignore").write_bytes(pattern.encode())
        found = _docker_build(client, context, builder)
        theirs = None if found is None else {name for name in found if name} | {"Dockerfile"}
        try:
            request = ImageRequest(Environment(dockerfile=context / "Dockerfile", context=context))
            ours = {*Recipe.read(request, dict).paths}
        except ImageBuildFailed:
            ours = None
        if ours != theirs:
            different[pattern] = (ours or set()) ^ (theirs or set())
    # The older one does not look for what such a pattern readmits.
    readmitted = {"Docs", "Docs/a.md", "sub", "sub/deep", "sub/deep/w.md"}
    assert different == ({} if builder == "buildx" else {"**\n!**/*.md": readmitted})


def _with_modes(context: Path) -> None:
    (context / "a.txt").chmod(0o4755)
    (context / "b.py").chmod(0o2750)
    (context / "sub").chmod(0o1777)
    (context / "empty").chmod(0o700)
    context.chmod(0o700)


def _with_patterns(context: Path) -> None:
    (context / ".dockerignore").write_text("*\n!a.txt\n!sub")


def _with_other_bytes(context: Path) -> None:
    (context / "Dockerfile").write_bytes(b"\xef\xbb\xbf# caf\xe9\r\nFROM scratch\r\nCOPY . /c/\r\n")


def _with_patterns_of_its_own(context: Path) -> None:
    (context / "Dockerfile.dockerignore").write_text("s*\nDockerfile\n")


@pytest.mark.parametrize(
    "change", [_with_modes, _with_patterns, _with_other_bytes, _with_patterns_of_its_own]
)
@pytest.mark.parametrize("builder", ["buildx", "classic"])
def test_an_image_has_of_its_context_what_docker_copies(
    use: Use,
    images: Images,
    client: docker.APIClient,
    context: Path,
    builder: str,
    change: Callable[[Path], None],
) -> None:
    # The older one does not look for patterns of a Dockerfile's own.
    model = "buildx" if change is _with_patterns_of_its_own else builder
    use(model)
    change(context)
    theirs = _docker_build(client, context, model)
    use(builder)
    image = images.resolve(ImageRequest(Environment(dockerfile=context / "Dockerfile", context=context)))
    assert contents(client, image.id, "/c") == theirs
