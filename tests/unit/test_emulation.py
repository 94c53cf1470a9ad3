"""The world in which the official harness of BigCodeBench runs solutions, seen from within."""

from __future__ import annotations

import pytest

from .test_bigcodebench_program import graded

SEEN = {
    "commands that kill": """
assert [os.system("kill -9 1"), os.system("exit 3") >> 8] == [0, 3]
assert [os.popen("killall x").read(), os.popen("echo x").read()] == ["Intercepted\\n", "x\\n"]
assert [subprocess.call(command) for command in (["kill", "1"], ["killall", "x"], ["false"])] == [0, 0, 1]
assert [subprocess.check_output(command) for command in (["ps"], ["echo", "x"])] == [b"", b"x\\n"]
for command in (["kill", "1"], ["killall", "x"], "pkill x"):
    done = subprocess.run(command)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
assert [run("x", ["x"]) for run in (os.execv, os.execvp)] == [None, None]
assert os.execvpe("x", ["x"], {}) is None
""",
    "output of commands": """
command = ["sh", "-c", "echo a; echo b >&2; exit 4"]
done = subprocess.run(command)
assert (done.returncode, done.stdout, done.stderr) == (4, b"a\\n", b"b\\n")
done = subprocess.run(command, capture_output=True)
assert (done.stdout, done.stderr) == (b"a\\n", b"b\\n")
done = subprocess.run(command, stdout=subprocess.DEVNULL)
assert (done.stdout, done.stderr) == (None, b"b\\n")
with subprocess.Popen(command) as process:
    assert process.communicate() == (b"a\\n", b"b\\n")
with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
    assert process.stdout is None and process.stderr.read() == b"b\\n"
""",
    "processes it started": """
with subprocess.Popen(["sleep", "30"]) as process:
    assert os.getsid(process.pid) == process.pid
    assert process.communicate(timeout=0.01) == (None, None)
    process.terminate()
    assert process.wait() == -signal.SIGTERM
with subprocess.Popen(["sleep", "30"]) as process:
    process.kill()
    assert process.wait() == -signal.SIGTERM
for send in (os.kill, os.killpg):
    with subprocess.Popen(["sleep", "30"]) as process:
        send(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
""",
    "processes of others": """
with subprocess.Popen(["sh", "-c", "sleep 30 & echo $!; read x; kill $!"], stdin=subprocess.PIPE) as process:
    other = int(process.stdout.readline())
    for send in (os.kill, os.killpg):
        send(other, signal.SIGKILL)
    status = open(f"/proc/{other}/status").read()
    process.communicate(b"\\n")
assert "State:\\tZ" not in status
assert os.kill(2**22 + 1, signal.SIGKILL) is None
got = []
signal.signal(signal.SIGUSR1, lambda *_: got.append(1))
os.kill(os.getpid(), signal.SIGUSR1)
assert got == [1]
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
os.killpg(os.getpgid(0), signal.SIGUSR1)
""",
    "standard streams": """
print("nobody hears this")
print("nor this", file=sys.stderr)
for read in (input, sys.stdin.read, sys.stdin.readline, sys.stdin.readlines):
    try:
        read()
    except OSError:
        continue
    raise AssertionError(read)
assert not sys.stdin.readable()
assert (builtins.exit, builtins.quit) == (None, None)
""",
    "limits and variables": """
wanted = {"TZ": "UTC", "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}
assert {name: os.environ.get(name) for name in wanted} == wanted
assert time.localtime(0).tm_hour == 0
found = [resource.getrlimit(what) for what in (resource.RLIMIT_AS, resource.RLIMIT_DATA, resource.RLIMIT_STACK)]
assert found == [(30 << 30,) * 2] * 2 + [(10 << 20,) * 2], found
assert not faulthandler.is_enabled()
""",
}


def test_a_solution_sees_what_the_official_harness_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    monkeypatch.setenv("PYTHONFAULTHANDLER", "1")
    solution = "import builtins, faulthandler, os, resource, signal, subprocess, sys, time\n"
    tests = "import unittest\nclass TestCases(unittest.TestCase):\n"
    for name, lines in SEEN.items():
        method = name.replace(" ", "_")
        solution += f"def {method}():\n" + "".join(f"    {line}\n" for line in lines.strip().splitlines())
        tests += f"    def test_{method}(self):\n        self.assertIsNone({method}())\n"
    verdict = graded(solution, tests)
    assert verdict["tests"] == {f"test_{name.replace(' ', '_')}": None for name in SEEN}, verdict
    assert verdict["status"] == "pass"
