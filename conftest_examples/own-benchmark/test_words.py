"""A benchmark in Python: scenarios with the keys of a manifest, variants by parametrize, a scorer beside them."""

import pytest

from pytest_benchjobs import Benchmark, Scenario, scorer


@scorer("share-of-lines")
def share_of_lines(context):
    """The share of the expected lines that are there, in their order. Runs on this machine, after the agent."""
    _, output = context.run("cat sorted.txt 2>/dev/null")
    found, expected = output.splitlines(), context.spec.params["lines"]
    return sum(a == b for a, b in zip(expected, found, strict=False)) / max(len(expected), len(found))


@pytest.mark.parametrize(("word", "times"), [("the", 3), ("fox", 2), ("cat", 0)])
def count(word, times):
    """A scenario for each set of parameters. They succeed and fail together, so gates count them as one."""
    return Scenario(
        problem_statement=f"Write the number of times that '{word}' is in text.txt to count.txt.",
        reference=f"grep -ow {word} text.txt | wc -l > count.txt",
        scorers=[
            {"type": "bash", "script": f'[ "$(tr -dc 0-9 < count.txt)" = {times} ] && echo 1 || echo 0'}
        ],
    )


words = Benchmark(
    "words-in-python",
    version="1.0",
    defaults={
        "image": "debian:bookworm-slim",
        "workdir": "/app",
        "network": "none",
        "files": {"text.txt": "text.txt"},
        "agent_timeout": 300,
    },
    scenarios=[
        count,
        Scenario(
            "longest",
            problem_statement="Write the longest word of text.txt to longest.txt.",
            tags=["easy"],
            reference=r"""
                tr -s ' ' '\n' < text.txt | awk '{print length, $0}' | sort -n | tail -1 | cut -d' ' -f2 > longest.txt
            """,
            scorers=[{"type": "command", "command": "grep -qxE 'quick|brown|jumps' longest.txt"}],
        ),
        Scenario(
            "sort",
            problem_statement="Write the words of text.txt to sorted.txt, one a line, sorted, each once.",
            reference="tr -s ' ' '\\n' < text.txt | LC_ALL=C sort -u > sorted.txt",
            threshold=0.8,
            scorers=[
                {
                    "name": "lines",
                    "type": share_of_lines,
                    "params": {
                        "lines": ["and", "brown", "dog", "fox", "jumps", "lazy", "over", "quick", "the"]
                    },
                }
            ],
        ),
    ],
)


@pytest.mark.bench_scenario(words, "longest")
def test_by_hand(bench_trial):
    """The scenarios can be driven by a test as well; see the example interactive-test."""
    text = bench_trial.read_file("text.txt").decode()
    bench_trial.write_file("longest.txt", max(text.split(), key=len))
