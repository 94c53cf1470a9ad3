"""Places in an image of programs, and of what they load when they start. Pure: knows paths, asks no engine.

Grading depends on what shells, interpreters and the dynamic loader pick up by themselves. Two questions are answered
for a path that an agent changed: is it such a place, and what becomes of something that was added there?
"""

from __future__ import annotations

import dataclasses
import enum
import fnmatch
import functools
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

LOADER_CACHE = "/etc/ld.so.cache"
ACCOUNTS = ("/etc/passwd", "/etc/group")
"""The engine reads them for each command it starts."""
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_PROGRAM = re.compile(
    r"(ba|da|a|z)?sh|busybox|env|python[0-9.]*|perl[0-9.]*|node(js)?|ruby[0-9.]*|cat|grep|egrep|sed|awk|mawk|gawk|"
    r"test|\[|kill|sleep|head|tail|sort|wc|cut|tr|cmp|diff|ls|rm|mv|cp|mkdir|chmod|tee|xargs|find|timeout|"
    r"(py\.?test)[0-9.-]*"
)
_LIBRARY = re.compile(r"ld-[^/]*\.so[^/]*|ld-musl[^/]*|libc[.-][^/]*so[^/]*|libpython[^/]*")
_MACHINES = ("x86_64", "aarch64")
_LIBRARIES = re.compile(r"(/usr)?(/local)?/lib(exec|32|64|x32)?(/.*)?")
_TOP_LINK = re.compile(r"/(bin|sbin|lib[^/]*)")
_SHARED = re.compile(
    r"/usr/(local/)?share/(awk|git-core|guile|java|lua|maven|nodejs|npm|perl|php|python|ruby|R\b|tcl)[^/]*(/.*)?"
)
_STARTUP = re.compile(
    r"/etc/(ld[.-](so|musl)[^/]*|ld\.so\.conf\.d/.+|python[^/]*/.+|perl/.+|gconv/.+|alternatives/[^/]+|ssl/openssl\.cnf)"
)
_SHELL_STARTUP = re.compile(
    r"/etc/(profile|profile\.d/.+|bash[^/]*|environment|zsh[^/]*|zsh/.+|inputrc|gitconfig|npmrc|nsswitch\.conf|"
    r"apt/apt\.conf(\.d/.+)?|dpkg/dpkg\.cfg\.d/.+|sudo\.conf|pip\.conf|uv/uv\.toml)"
)
_HOME_STARTUP = re.compile(
    r"\.(bashrc|bash_profile|bash_login|bash_aliases|profile|zshenv|zshrc|zprofile|inputrc|gitconfig|npmrc|curlrc|"
    r"wgetrc|pydistutils\.cfg|Rprofile|perlrc|cargo/config(\.toml)?|"
    r"config/(git/config|go/env|pip/pip\.conf|uv/uv\.toml)|pip/pip\.conf)"
)
_CHANGED_STARTUP = re.compile(r"/etc/(pam\.conf|pam\.d/.+|security/.+|sudoers|login\.defs|dpkg/dpkg\.cfg)")
"""As the others where the image has it; what is added there is for what was installed."""
_DIRECTORIES = re.compile(r"/etc/(alternatives|gconv|perl|python[^/]*)|/usr/(local/)?share")
_STARTUP_DIRECTORIES = re.compile(
    r"/etc/(apt(/apt\.conf\.d)?|dpkg(/dpkg\.cfg\.d)?|ld\.so\.conf\.d|pam\.d|profile\.d|security|ssl|uv|zsh)"
)
_HOME_DIRECTORIES = (
    "", "/.cargo", "/.config", "/.config/git", "/.config/go", "/.config/pip", "/.config/uv", "/.pip",
)  # fmt: skip
_PYTHON = re.compile(
    r"(?P<root>.*/lib(64)?/(?P<version>python3?[0-9.]*))(?P<packages>/((site|dist)-packages|lib-dynload))?/(?P<rest>.+)"
)
_PYTHON_STARTUP = re.compile(r"/etc/(?P<version>python[0-9.]+)")
_PYTHON_ROOT = re.compile(r".*/lib(64)?(/python3?[0-9.]*(/(site|dist)-packages)?)?")
_PYTHON_ZIP = re.compile(r".*/lib(64)?/python3[0-9]+\.zip")
_PYTHON_LAYOUT = ("pyvenv.cfg", "pybuilddir.txt")
"""Beside a python, or above it, they make it look for its modules elsewhere."""
_PERL = re.compile(
    r"(/etc/perl|/usr(/local)?/(share|lib)(/[^/]+-linux[^/]*)?/((?P<own>perl|perl-base)|perl5|site_perl)(/[0-9.]+)?)/(?P<rest>.+)"
)
_PERL_CORE = re.compile(r"/usr/(share|lib/[^/]+-linux[^/]*)/(perl|perl-base)(/.*)?")
_RUNNERS = re.compile(r"(pytest|_pytest|pluggy|iniconfig|py)(\.py|/.*|-[^/]+\.(dist|egg)-info/.*)?")
_MODULE = re.compile(r"(?P<stem>[^./]+)(\.[^/]*)?\.(py|pyc|so)")
_ABOVE_TESTS = re.compile(
    r"/((conftest|__init__)\.[^/]+|\.?pytest\.(ini|toml)|pyproject\.toml|tox\.ini|setup\.cfg)"
)
_IN_ROOT = re.compile(r"/[^/]+\.(py|pyc|so)|/[^/]+/__init__\.[^/]+")
_CUSTOMIZE = re.compile(r"(site|user)customize(\..*|/__init__\..*)?")


class Fate(enum.Enum):
    """Fate of something that an agent added."""

    LEAVE = enum.auto()
    EMPTY = enum.auto()
    """Nothing is in it any more."""
    REMOVE = enum.auto()
    """It is out of the way."""
    REMOVE_TOP = enum.auto()
    """As `REMOVE`, with the whole directory of the top level that it is in."""
    REMOVE_IF_LINK = enum.auto()
    """As `REMOVE`, where it is a link: what it points at stands in no list of changes."""
    REMOVE_IF_IN_FRONT = enum.auto()
    """As `REMOVE`, where the image has one of `counterparts`."""
    LINK_IF_IN_FRONT = enum.auto()
    """A link to the first of `counterparts` that the image has."""
    STRIP_PLUGINS = enum.auto()
    """Its entry points for pytest go."""
    CHECK_CACHE = enum.auto()
    """The loader's cache: stays as long as what the image has is found where it was."""
    COMPILED = enum.auto()
    """As `EMPTY`, and nobody's misdeed: Python compiles what it runs."""


@dataclasses.dataclass(frozen=True, slots=True)
class Restoring:
    """Extent to which an agent's changes of programs are undone before grading."""

    keep: tuple[str, ...] = ()
    """Patterns of paths which are part of the answer."""
    packages: bool = False
    """Software that the agent replaced stays replaced: only what runs any test is put back (Harbor's contract)."""

    def keeps(self, path: str) -> bool:
        """Return True if a path, or a directory it is in, is part of the answer."""
        if not self.keep:
            return False
        parts = path.split("/")
        above = ["/".join(parts[:end]) for end in range(2, len(parts) + 1)]
        return any(fnmatch.fnmatchcase(one, pattern.rstrip("/")) for pattern in self.keep for one in above)


@dataclasses.dataclass(frozen=True)
class Places:
    """Places of one image.

    Args:
        programs: Directories of its PATH.
        workdir: Where the agent's own files are.
        homes: Of users that commands run as.
        restoring: How much is undone.
        entrypoint: Files of the image that its own ENTRYPOINT names, where that may be started again.
    """

    programs: tuple[str, ...]
    workdir: str
    homes: tuple[str, ...] = ("/root",)
    restoring: Restoring = dataclasses.field(default_factory=Restoring)
    entrypoint: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        env: Mapping[str, str],
        workdir: str,
        restoring: Restoring,
        *,
        homes: Iterable[str] = (),
        entrypoint: Iterable[str] = (),
    ) -> Places:
        """Those of an image with such variables; `homes`: besides root's."""
        listed = (*env.get("PATH", DEFAULT_PATH).split(":"), *DEFAULT_PATH.split(":"))
        programs = tuple(dict.fromkeys(d.rstrip("/") for d in listed if d.startswith("/")))
        known = dict.fromkeys(("/root", env.get("HOME", "/root").rstrip("/") or "/root", *homes))
        named = frozenset(posixpath.normpath(word) for word in entrypoint if word.startswith("/"))
        return cls(programs, workdir.rstrip("/"), tuple(known), restoring, named)

    @functools.cached_property
    def prefixes(self) -> tuple[str, ...]:
        """Return where interpreters have their libraries: above the directories of PATH."""
        above = (posixpath.dirname(directory) for directory in self.programs)
        homes = (f"{home}/.local" for home in self.homes)
        return tuple(dict.fromkeys(prefix for prefix in (*above, *homes) if prefix not in ("", "/")))

    @functools.cached_property
    def ways(self) -> frozenset[str]:
        """Directories on the way to programs and libraries, themselves included."""
        ends = (*self.programs, "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc")
        return frozenset(path for path in (*ends, *map(posixpath.dirname, ends)) if path != "/")

    def is_way(self, path: str) -> bool:
        """Return True if a directory leads to something that is restored: it must not be a link to elsewhere."""
        if path in self.ways or _DIRECTORIES.fullmatch(path):
            return not self.restoring.keeps(path)
        if self.restoring.packages or self.restoring.keeps(path):
            return False
        home = any(path == home + below for home in self.homes for below in _HOME_DIRECTORIES)
        return (home and path != self.workdir) or _STARTUP_DIRECTORIES.fullmatch(path) is not None

    def is_loaded_by(self, path: str, prefix: str, version: str) -> bool:
        """Return True if a python of the image, below `prefix`, would look where a directory of modules was added."""
        if started := _PYTHON_STARTUP.match(path):
            return started["version"] == version
        python = _PYTHON.fullmatch(path)
        if python is None:
            return True
        of_users = any(path.startswith(f"{home}/.local/") for home in self.homes)
        beside = path.startswith(f"{prefix}/lib") or (prefix == "/usr" and path.startswith("/usr/local/lib"))
        return (of_users or beside) and python["version"] in (version, "python3")

    def is_restored(self, path: str) -> bool:
        """Return True if what the image has at `path` comes back when it was changed or deleted."""
        if _TOP_LINK.fullmatch(path):
            return True
        if self.restoring.keeps(path):
            return False
        if path in ACCOUNTS or self._is_layout(path):
            return True
        if path in self.entrypoint and not self._below_workdir(path):
            return True
        if self.restoring.packages:
            return self._runs_any_test(path)
        if posixpath.dirname(path) in self.programs or self._in_prefix(path):
            return True
        known = (_LIBRARIES, _SHARED, _STARTUP, _SHELL_STARTUP, _CHANGED_STARTUP)
        loaded = any(pattern.fullmatch(path) for pattern in known) or self._starts_in_home(path)
        return loaded and not self._below_workdir(path)

    def fate(self, path: str) -> Fate:
        """Return what becomes of a file, a link or an empty directory that was added at `path`."""
        directory, name = posixpath.split(path)
        own = path.startswith(("/tmp/", "/var/")) or self._below_workdir(path)  # noqa: S108
        if self.restoring.keeps(path) or (
            own and not self._in_prefix(path) and directory not in self.programs
        ):
            return Fate.LEAVE
        if self.workdir and directory == "/" and _ABOVE_TESTS.fullmatch(path):
            return Fate.REMOVE
        if path == LOADER_CACHE:
            return Fate.CHECK_CACHE
        if self._is_layout(path):
            return Fate.REMOVE
        if directory in self.programs:
            core = _PROGRAM.fullmatch(name) is not None
            return Fate.LINK_IF_IN_FRONT if core or not self.restoring.packages else Fate.LEAVE
        if _PYTHON_ZIP.fullmatch(path) and self._in_prefix(path):
            return Fate.REMOVE
        if self._is_way_to_python(path) or self.is_way(path):
            return Fate.REMOVE_IF_LINK
        if (python := _PYTHON.fullmatch(path)) and self._in_prefix(path):
            return self._fate_of_python(python)
        return self._fate_of_other(path)

    def _fate_of_other(self, path: str) -> Fate:
        if self.workdir and _IN_ROOT.fullmatch(path) and not self._below_workdir(path):
            return Fate.REMOVE_IF_IN_FRONT
        if perl := _PERL.fullmatch(path):
            return self._fate_of_perl(path, own=perl["own"] is not None)
        if path == "/etc/ld.so.preload" or "/gconv/gconv-modules" in path:
            return Fate.EMPTY
        if re.fullmatch(r"/etc/ld-musl[^/]*", path):
            return Fate.REMOVE
        if _LIBRARIES.fullmatch(path):
            return self._fate_of_library(path)
        if self.restoring.packages:
            return Fate.LEAVE
        if path.startswith("/node_modules"):
            return Fate.REMOVE_TOP
        if path.startswith("/etc/alternatives/"):
            return Fate.LEAVE
        started = _SHELL_STARTUP.fullmatch(path) or _STARTUP.fullmatch(path) or self._starts_in_home(path)
        return Fate.EMPTY if started else Fate.LEAVE

    def counterparts(self, path: str, python_version: str | None = None) -> Iterator[str]:
        """Paths of the image that something added at `path` may have got in front of."""
        directory, name = posixpath.split(path)
        if directory in self.programs:
            # What stands later on the path is what it hides.
            later = self.programs[self.programs.index(directory) + 1 :]
            yield from (f"{other}/{name}" for other in later)
        elif python := _PYTHON.fullmatch(path):
            own = python["root"] + (python["packages"] or "")
            yield from self._python_counterparts(own, python["rest"], python["version"])
        elif perl := _PERL.fullmatch(path):
            yield from _perl_counterparts(perl["rest"], path)
        elif _LIBRARIES.fullmatch(path):
            yield from _library_counterparts(path)
        elif python_version is not None:
            yield from self._python_counterparts("", path.lstrip("/"), python_version)

    def _fate_of_python(self, python: re.Match[str]) -> Fate:
        rest, top = python["rest"], python["rest"].partition("/")[0]
        if _CUSTOMIZE.fullmatch(rest):
            return Fate.EMPTY if rest.endswith(".py") else Fate.REMOVE
        if rest.endswith(".pth") and "/" not in rest:
            # What an editable installation leaves; where replaced software is part of the answer, so is this.
            installed = rest.startswith(("__editable__", "easy-install", "distutils-precedence"))
            return Fate.LEAVE if self.restoring.packages and installed else Fate.EMPTY
        if top.endswith((".dist-info", ".egg-info")):
            if rest == top:
                return Fate.REMOVE_IF_LINK
            return Fate.STRIP_PLUGINS if rest.endswith("/entry_points.txt") else Fate.LEAVE
        if "__pycache__/" in rest:
            return Fate.COMPILED
        name = posixpath.basename(rest)
        # A name without a suffix may be a link to a package.
        if _MODULE.fullmatch(name) or "." not in name:
            return Fate.REMOVE_IF_IN_FRONT
        return Fate.LEAVE

    def _fate_of_perl(self, path: str, *, own: bool) -> Fate:
        if path.endswith("/sitecustomize.pl"):
            return Fate.EMPTY
        # Of the interpreter's own directories the later ones add to the earlier; those of packages come before them.
        late = own and path.startswith(("/usr/lib/", "/usr/share/"))
        packaged = path.startswith(("/usr/lib/", "/usr/share/")) and self.restoring.packages
        return Fate.LEAVE if (late or packaged) and not path.endswith(".pmc") else Fate.REMOVE_IF_IN_FRONT

    def _fate_of_library(self, path: str) -> Fate:
        name = posixpath.basename(path)
        if ".so" not in name or not (path.startswith(("/usr/local/", "/lib")) or "/glibc-hwcaps/" in path):
            return Fate.LEAVE  # the loader looks there last
        core = _LIBRARY.fullmatch(name) is not None
        return Fate.REMOVE_IF_IN_FRONT if core or not self.restoring.packages else Fate.LEAVE

    def _python_counterparts(self, own: str, rest: str, version: str) -> Iterator[str]:
        directory, name = posixpath.split(rest)
        module = _MODULE.fullmatch(name)
        stem = name if module is None else module["stem"]
        if stem == "__init__":
            # A package: it comes before a module of the same name beside it.
            stem, directory = posixpath.basename(directory), posixpath.dirname(directory)
        if directory:
            yield from _forms(f"{own}/{directory}", stem, version)
            return
        only_core = self.restoring.packages and not _RUNNERS.fullmatch(stem)
        for root in dict.fromkeys((own, *self._python_roots(version))):
            if root and not (only_core and root.endswith("-packages")):
                yield from _forms(root, stem, version)

    def _python_roots(self, version: str) -> Iterator[str]:
        for prefix in self.prefixes:
            library = f"{prefix}/lib/{version}"
            yield library
            yield from (f"{library}/{name}" for name in ("lib-dynload", "site-packages", "dist-packages"))
            yield f"{prefix}/lib/python3/dist-packages"

    def _runs_any_test(self, path: str) -> bool:
        directory, name = posixpath.split(path)
        if directory in self.programs:
            return _PROGRAM.fullmatch(name) is not None
        if (python := _PYTHON.fullmatch(path)) is not None and self._in_prefix(path):
            # The standard library is part of the interpreter; packages are what tasks are about, but for the runner.
            return (
                not (python["packages"] or "").endswith("-packages")
                or _RUNNERS.fullmatch(python["rest"]) is not None
            )
        if self._is_way_to_python(path) or _PERL_CORE.fullmatch(path):
            return True
        if _LIBRARIES.fullmatch(directory) and _LIBRARY.fullmatch(name):
            return True
        if directory == "/etc/alternatives":
            return _PROGRAM.fullmatch(name) is not None
        return _STARTUP.fullmatch(path) is not None and not path.startswith(("/etc/ld.so.conf", "/etc/ssl/"))

    def _is_layout(self, path: str) -> bool:
        directory, name = posixpath.split(path)
        return name in _PYTHON_LAYOUT and (directory in self.programs or directory in self.prefixes)

    @functools.cached_property
    def _libraries(self) -> tuple[str, ...]:
        return tuple(f"{prefix}/{name}/" for prefix in self.prefixes for name in ("lib", "lib64"))

    def _in_prefix(self, path: str) -> bool:
        return path.startswith(self._libraries)

    def _is_way_to_python(self, path: str) -> bool:
        ways = (*(f"{home}/.local" for home in self.homes), *self.prefixes)
        return path in ways or (_PYTHON_ROOT.fullmatch(path) is not None and self._in_prefix(f"{path}/"))

    def _below_workdir(self, path: str) -> bool:
        return bool(self.workdir) and path.startswith(f"{self.workdir}/")

    def _starts_in_home(self, path: str) -> bool:
        return any(
            path.startswith(f"{home}/") and _HOME_STARTUP.fullmatch(path.removeprefix(f"{home}/"))
            for home in self.homes
        )


def python_root(path: str) -> str | None:
    """The directory of an interpreter's modules, or start-up files, that a path is in; None: in none."""
    if started := _PYTHON_STARTUP.match(path):
        return started[0]
    python = _PYTHON.fullmatch(path)
    return None if python is None else python["root"]


def _forms(directory: str, stem: str, version: str) -> Iterator[str]:
    """Files and directories that a Python module can be."""
    yield f"{directory}/{stem}.py"
    yield f"{directory}/{stem}"
    tag = version.removeprefix("python").replace(".", "")
    if directory.endswith(("-packages", "lib-dynload")) and len(tag) > 1:
        yield from (f"{directory}/{stem}.cpython-{tag}-{machine}-linux-gnu.so" for machine in _MACHINES)
        yield f"{directory}/{stem}.abi3.so"


def _perl_counterparts(rest: str, path: str) -> Iterator[str]:
    # Perl takes a compiled Name.pmc instead of Name.pm.
    name = rest.removesuffix("c") if rest.endswith(".pmc") else rest
    if name != rest:
        yield path.removesuffix("c")
    found = re.search(r"/(5\.[0-9]+)(\.[0-9]+)?/", path)
    versions = (
        [found[1], found[1] + (found[2] or "")] if found else [f"5.{minor}" for minor in range(26, 46, 2)]
    )
    roots = ["/usr/share/perl5", *(f"/usr/lib/{machine}-linux-gnu/perl-base" for machine in _MACHINES)]
    for version in dict.fromkeys(versions):
        roots += [f"/usr/share/perl/{version}", f"/usr/local/lib/perl5/{version}"]
        roots += [
            f"/usr/lib/{machine}-linux-gnu/{kind}/{version}"
            for machine in _MACHINES
            for kind in ("perl", "perl5")
        ]
    yield from (candidate for root in roots if (candidate := f"{root}/{name}") != path)


def _library_counterparts(path: str) -> Iterator[str]:
    name = posixpath.basename(path)
    roots = ["/lib", "/usr/lib", "/usr/local/lib", "/lib64", "/usr/lib64"]
    roots += [f"{root}/{machine}-linux-gnu" for root in roots[:3] for machine in _MACHINES]
    yield from (candidate for root in roots if (candidate := f"{root}/{name}") != path)


def directories_above(path: str) -> Iterator[str]:
    """Yield the directories that a path is in, but for the root, the nearest first."""
    while (path := posixpath.dirname(path)).strip("/"):
        yield path


def is_below(path: str, tops: Collection[str]) -> bool:
    """Return True if a path is one of `tops`, or in one of them."""
    return bool(tops) and (path in tops or any(above in tops for above in directories_above(path)))
