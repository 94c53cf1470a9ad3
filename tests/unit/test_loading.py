"""What becomes of files that an agent changed or added where programs load from. Pure: no engine."""

from __future__ import annotations

import struct

import pytest

from pytest_benchjobs.sandbox.docker.loader_cache import leads_elsewhere, libraries
from pytest_benchjobs.sandbox.loading import Fate, Places, Restoring, is_below

LIB = "/usr/lib/python3.11"
LOCAL = "/usr/local/lib/python3.11/dist-packages"


def _places(
    *, packages: bool = False, keep: tuple[str, ...] = (), workdir: str = "/app", path: str = ""
) -> Places:
    env = {"PATH": path} if path else {}
    return Places.of(env, workdir, Restoring(keep, packages))


@pytest.mark.parametrize(
    ("path", "strict", "contract"),
    [
        ("/usr/bin/bash", True, True),
        ("/usr/bin/git", True, False),
        ("/bin", True, True),
        (f"{LIB}/pathlib.py", True, True),
        (f"{LIB}/lib-dynload/_json.cpython-311-x86_64-linux-gnu.so", True, True),
        ("/usr/lib/python3/dist-packages/_pytest/main.py", True, True),
        ("/usr/lib/python3/dist-packages/numpy/core.py", True, False),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", True, True),
        ("/usr/lib/x86_64-linux-gnu/libssl.so.3", True, False),
        ("/usr/share/perl/5.36.0/strict.pm", True, True),
        ("/usr/share/perl5/Mine.pm", True, False),
        (LIB, True, True),
        ("/etc/python3.11/sitecustomize.py", True, True),
        ("/etc/ld.so.preload", True, True),
        ("/etc/alternatives/awk", True, True),
        ("/etc/alternatives/java", True, False),
        ("/etc/profile", True, False),
        ("/root/.bashrc", True, False),
        ("/root/.gitconfig", True, False),
        ("/root/notes.txt", False, False),
        ("/etc/nginx/nginx.conf", False, False),
        ("/usr/share/nginx/html/index.html", False, False),
        ("/var/lib/dpkg/status", False, False),
        ("/app/run.sh", False, False),
    ],
)
def test_what_the_image_has_comes_back_where_grading_depends_on_it(
    path: str, *, strict: bool, contract: bool
) -> None:
    assert _places().is_restored(path) is strict
    assert _places(packages=True).is_restored(path) is contract


@pytest.mark.parametrize(
    ("path", "strict", "contract"),
    [
        ("/app/pytest.py", Fate.LEAVE, Fate.LEAVE),
        ("/app/venv/lib/python3.11/site-packages/x.pth", Fate.LEAVE, Fate.LEAVE),
        ("/conftest.py", Fate.REMOVE, Fate.REMOVE),
        ("/pyproject.toml", Fate.REMOVE, Fate.REMOVE),
        ("/hello.py", Fate.REMOVE_IF_IN_FRONT, Fate.REMOVE_IF_IN_FRONT),
        ("/usr/sbin/nginx", Fate.LINK_IF_IN_FRONT, Fate.LEAVE),
        ("/usr/local/bin/grep", Fate.LINK_IF_IN_FRONT, Fate.LINK_IF_IN_FRONT),
        ("/etc/nginx/nginx.conf", Fate.LEAVE, Fate.LEAVE),
        ("/etc/profile.d/go.sh", Fate.EMPTY, Fate.LEAVE),
        ("/etc/ld.so.cache", Fate.CHECK_CACHE, Fate.CHECK_CACHE),
        ("/etc/ld.so.preload", Fate.EMPTY, Fate.EMPTY),
        ("/etc/ld-musl-x86_64.path", Fate.REMOVE, Fate.REMOVE),
        ("/root/.bashrc", Fate.EMPTY, Fate.LEAVE),
        ("/node_modules/left-pad/index.js", Fate.REMOVE_TOP, Fate.LEAVE),
        (f"{LOCAL}/x.pth", Fate.EMPTY, Fate.EMPTY),
        (f"{LOCAL}/__editable__.mine-1.pth", Fate.EMPTY, Fate.LEAVE),
        (f"{LOCAL}/sitecustomize.py", Fate.EMPTY, Fate.EMPTY),
        (f"{LOCAL}/usercustomize/__init__.py", Fate.EMPTY, Fate.EMPTY),
        (f"{LOCAL}/usercustomize.cpython-311-x86_64-linux-gnu.so", Fate.REMOVE, Fate.REMOVE),
        (f"{LOCAL}/mine-1.dist-info/entry_points.txt", Fate.STRIP_PLUGINS, Fate.STRIP_PLUGINS),
        (f"{LOCAL}/mine-1.dist-info", Fate.REMOVE_IF_LINK, Fate.REMOVE_IF_LINK),
        (f"{LOCAL}/mine-1.dist-info/RECORD", Fate.LEAVE, Fate.LEAVE),
        (f"{LOCAL}/numpy/__init__.py", Fate.REMOVE_IF_IN_FRONT, Fate.REMOVE_IF_IN_FRONT),
        (f"{LOCAL}/numpy/data.csv", Fate.LEAVE, Fate.LEAVE),
        (f"{LIB}/__pycache__/os.cpython-311.pyc", Fate.COMPILED, Fate.COMPILED),
        ("/usr/lib/python311.zip", Fate.REMOVE, Fate.REMOVE),
        ("/usr/pyvenv.cfg", Fate.REMOVE, Fate.REMOVE),
        ("/usr/bin/pybuilddir.txt", Fate.REMOVE, Fate.REMOVE),
        ("/root/.local/lib/python3.11", Fate.REMOVE_IF_LINK, Fate.REMOVE_IF_LINK),
        ("/root/.local", Fate.REMOVE_IF_LINK, Fate.REMOVE_IF_LINK),
        ("/etc/perl/strict.pm", Fate.REMOVE_IF_IN_FRONT, Fate.REMOVE_IF_IN_FRONT),
        ("/usr/local/share/perl/5.36.0/sitecustomize.pl", Fate.EMPTY, Fate.EMPTY),
        ("/usr/local/lib/libssl.so.3", Fate.REMOVE_IF_IN_FRONT, Fate.LEAVE),
        ("/usr/local/lib/libc.so.6", Fate.REMOVE_IF_IN_FRONT, Fate.REMOVE_IF_IN_FRONT),
        ("/usr/lib/x86_64-linux-gnu/gconv/gconv-modules.d/x.conf", Fate.EMPTY, Fate.EMPTY),
        ("/usr/lib/nginx/modules/x.so", Fate.LEAVE, Fate.LEAVE),
        ("/usr/share/perl/5.36.0/strict.pm", Fate.LEAVE, Fate.LEAVE),
        ("/usr/share/perl5/Git.pm", Fate.REMOVE_IF_IN_FRONT, Fate.LEAVE),
        ("/usr/share/perl/5.36.0/strict.pmc", Fate.REMOVE_IF_IN_FRONT, Fate.REMOVE_IF_IN_FRONT),
        ("/etc/apt/apt.conf.d/99x", Fate.EMPTY, Fate.LEAVE),
        ("/root/.config/uv/uv.toml", Fate.EMPTY, Fate.LEAVE),
        ("/root/.config", Fate.REMOVE_IF_LINK, Fate.LEAVE),
        ("/etc/python3.11", Fate.REMOVE_IF_LINK, Fate.REMOVE_IF_LINK),
        ("/etc/pam.d/sshd", Fate.LEAVE, Fate.LEAVE),
    ],
)
def test_what_was_added_stays_unless_it_is_picked_up_unasked(path: str, strict: Fate, contract: Fate) -> None:
    assert _places().fate(path) is strict
    assert _places(packages=True).fate(path) is contract


def test_what_the_author_calls_part_of_the_answer_is_left_alone() -> None:
    places = _places(keep=("/usr/lib/python3/dist-packages/numpy*", "/etc/profile.d"))
    assert not places.is_restored("/usr/lib/python3/dist-packages/numpy/core/x.py")
    assert places.fate("/etc/profile.d/go.sh") is Fate.LEAVE
    assert places.is_restored("/usr/lib/python3/dist-packages/pandas/x.py")


@pytest.mark.parametrize(
    ("path", "strict", "contract"),
    [
        ("/etc", True, True), ("/etc/python3.11", True, True), ("/etc/perl", True, True),
        ("/etc/alternatives", True, True), ("/usr/share", True, True), ("/etc/profile.d", True, False),
        ("/etc/pam.d", True, False), ("/root", True, False), ("/root/.config/git", True, False),
        ("/etc/nginx", False, False), ("/usr/share/nginx", False, False), ("/root/data", False, False),
    ],
)  # fmt: skip
def test_a_directory_on_the_way_to_what_is_loaded_must_lead_there(
    path: str, strict: bool, contract: bool
) -> None:
    assert _places().is_way(path) is strict
    assert _places(packages=True).is_way(path) is contract
    assert not _places(keep=(path,)).is_way(path)


def test_programs_are_found_first_also_below_the_workdir() -> None:
    places = _places(path="/app/bin:/usr/bin")
    assert places.fate("/app/bin/grep") is Fate.LINK_IF_IN_FRONT
    assert places.fate("/app/other/grep") is Fate.LEAVE


@pytest.mark.parametrize("packages", [False, True])
def test_the_layout_of_a_python_and_the_names_of_users_are_put_back(packages: bool) -> None:
    places = _places(path="/opt/venv/bin:/usr/bin", packages=packages)
    assert places.is_restored("/opt/venv/pyvenv.cfg")
    assert places.is_restored("/etc/passwd")


def test_what_an_entrypoint_names_is_put_back_but_for_what_is_the_agents() -> None:
    places = Places.of({}, "/app", Restoring(), entrypoint=("/entry.sh", "/app/serve", "--flag"))
    expected = [True, False, False]
    assert [places.is_restored(path) for path in ("/entry.sh", "/app/serve", "/other.sh")] == expected


def test_every_home_counts() -> None:
    places = Places.of({}, "/app", Restoring(), homes=("/home/me",))
    assert places.is_restored("/home/me/.bashrc")
    assert places.fate("/home/me/.local/lib/python3.11/site-packages/x.pth") is Fate.EMPTY


def test_the_libraries_of_a_python_on_the_path_count_wherever_it_is() -> None:
    places = _places(path="/opt/conda/bin:/app/.venv/bin:/usr/bin")
    assert places.is_restored("/opt/conda/lib/python3.12/json/__init__.py")
    assert places.is_restored("/app/.venv/lib/python3.12/site-packages/pytest/__init__.py")
    assert places.fate("/app/.venv/lib/python3.12/site-packages/x.pth") is Fate.EMPTY
    assert not _places().is_restored("/opt/conda/lib/python3.12/json/__init__.py")


def test_in_a_workdir_that_is_the_root_files_of_the_root_are_the_agents() -> None:
    assert _places(workdir="/").fate("/conftest.py") is Fate.LEAVE


@pytest.mark.parametrize(
    ("path", "behind"),
    [
        ("/usr/local/bin/grep", "/usr/bin/grep"),
        (f"{LOCAL}/pytest.py", "/usr/lib/python3/dist-packages/pytest"),
        (f"{LOCAL}/pathlib.py", f"{LIB}/pathlib.py"),
        (f"{LIB}/pathlib/__init__.py", f"{LIB}/pathlib.py"),
        (f"{LIB}/json/decoder.cpython-311-x86_64-linux-gnu.so", f"{LIB}/json/decoder.py"),
        (f"{LOCAL}/_pytest", "/usr/lib/python3/dist-packages/_pytest"),
        ("/etc/perl/File/Find.pm", "/usr/share/perl/5.36/File/Find.pm"),
        *(
            ("/usr/local/lib/x86_64-linux-gnu/perl/5.36.0/File/Find.pm", f"{root}/File/Find.pm")
            for root in (
                "/usr/share/perl5", "/usr/share/perl/5.36", "/usr/share/perl/5.36.0",
                "/usr/local/lib/perl5/5.36.0", "/usr/lib/x86_64-linux-gnu/perl/5.36",
                "/usr/lib/aarch64-linux-gnu/perl5/5.36.0",
            )
        ),
        *(("/etc/perl/strict.pm", f"/usr/share/perl/5.{minor}/strict.pm") for minor in (26, 28, 44)),
        ("/usr/lib/x86_64-linux-gnu/perl-base/strict.pmc", "/usr/lib/x86_64-linux-gnu/perl-base/strict.pm"),
        ("/usr/local/lib/libc.so.6", "/usr/lib/x86_64-linux-gnu/libc.so.6"),
        ("/usr/lib/x86_64-linux-gnu/glibc-hwcaps/x86-64-v3/libc.so.6", "/usr/lib/x86_64-linux-gnu/libc.so.6"),
        ("/json.py", f"{LIB}/json"),
    ],
)  # fmt: skip
def test_what_something_may_have_got_in_front_of_is_known(path: str, behind: str) -> None:
    assert behind in set(_places().counterparts(path, "python3.11"))


def test_of_perl_only_the_version_that_a_path_names_counts() -> None:
    found = set(_places().counterparts("/usr/share/perl/5.36.0/strict.pmc"))
    assert "/usr/share/perl/5.36.0/strict.pm" in found
    assert not any("None" in path or "5.34" in path for path in found)


def test_by_contract_a_package_may_replace_one_of_the_image_but_not_the_runner() -> None:
    places = _places(packages=True)
    assert "/usr/lib/python3/dist-packages/numpy" not in set(
        places.counterparts(f"{LOCAL}/numpy/__init__.py")
    )
    assert "/usr/lib/python3/dist-packages/pytest" in set(places.counterparts(f"{LOCAL}/pytest/__init__.py"))


@pytest.mark.parametrize(
    ("path", "prefix", "loaded"),
    [
        (f"{LIB}/sitecustomize.py", "/usr", True),
        (f"{LIB}/sitecustomize.py", "/usr/local", False),
        (f"{LOCAL}/x.pth", "/usr", True),
        ("/usr/local/lib/python3.12/site-packages/x.pth", "/usr", False),
        ("/root/.local/lib/python3.11/site-packages/x.pth", "/opt/conda", True),
        ("/usr/lib/python3/dist-packages/x.pth", "/usr", True),
        ("/conftest.py", "/usr", True),
        ("/etc/python3.11/sitecustomize.py", "/usr", True),
        ("/etc/python3.12/sitecustomize.py", "/usr", False),
    ],
)
def test_a_python_that_was_installed_loads_what_is_its_own(path: str, prefix: str, *, loaded: bool) -> None:
    assert _places().is_loaded_by(path, prefix, "python3.11") is loaded


def test_a_program_hides_only_what_comes_later_on_the_path() -> None:
    assert set(_places().counterparts("/usr/bin/x")) == {"/sbin/x", "/bin/x"}


def _cache(**files: str) -> bytes:
    """A cache of the loader in which `libc_so_6="/lib/libc.so.6"` is one library."""
    names = [(name.replace("_", "."), file) for name, file in files.items()]
    start = 48 + 24 * len(names)
    entries, strings = b"", b""
    for name, file in names:
        key = start + len(strings)
        strings += name.encode() + b"\0"
        entries += struct.pack("<iIIIQ", 3, key, start + len(strings), 0, 0)
        strings += file.encode() + b"\0"
    head = b"glibc-ld.so.cache1.1" + struct.pack("<II", len(names), len(strings)) + bytes(20)
    return head + entries + strings


def test_the_cache_of_the_loader_may_get_new_libraries_but_not_new_places() -> None:
    original = _cache(libssl_so_3="/usr/lib/libssl.so.3")
    assert libraries(original) == {"libssl.so.3": {"/usr/lib/libssl.so.3"}}
    more = _cache(libssl_so_3="/usr/lib/libssl.so.3", libmine_so_1="/usr/local/lib/libmine.so.1")
    assert not leads_elsewhere(more, original)
    assert not leads_elsewhere(original, None)
    assert leads_elsewhere(_cache(libssl_so_3="/opt/libssl.so.3"), original)
    assert leads_elsewhere(_cache(libc_so_6="/opt/libc.so.6"), None)
    assert not leads_elsewhere(_cache(libssl_so_3="/usr/local/lib/libssl.so.3"), original, core_only=True)
    assert leads_elsewhere(_cache(libc_so_6="/opt/libc.so.6"), original, core_only=True)


def test_a_cache_of_nothing_is_one() -> None:
    assert libraries(_cache()) == {}
    with pytest.raises(ValueError, match="not a cache"):
        libraries(_cache()[:-1])
    whole = _cache(libx_so_1="/x", liby_so_1="/y")
    with pytest.raises(ValueError, match="cut"):
        libraries(whole[: 48 + 2 * 24 - 1])


@pytest.mark.parametrize(
    "content", [b"", b"ld.so-1.7.0", _cache(libx_so_1="/x")[:60], b"glibc-ld.so.cache1.1" + b"\xff" * 60]
)
def test_a_cache_that_cannot_be_read_leads_elsewhere(content: bytes) -> None:
    assert leads_elsewhere(content, None)


@pytest.mark.parametrize(
    ("path", "below"),
    [
        ("/app", True), ("/app/x/y", True), ("/apples", False), ("/", False), ("", False), ("app/x", False),
        ("//x", False),
    ],
)  # fmt: skip
def test_a_path_is_below_a_directory_however_odd_it_is(path: str, below: bool) -> None:
    assert is_below(path, ("/app",)) is below
    assert not is_below(path, ())
