"""Scorers: what grades a finished trial. Begin to read at `protocol.py`, then `builtin.py`.

    protocol.py       what a scorer is: a finished trial in, a number within [0, 1] out
    needs.py          what a kind of scorer needs of a trial before it grades
    builtin.py        the kinds that come with the package (pytest_runner.py: how `tests` runs pytest)
    answering.py      the kind `answer`: answers.py compares a short answer, replies.py finds it in a text
    params.py         parameters of scorers, checked
    bigcodebench/     the kind of BigCodeBench
    swebench/         the kinds of SWE-bench and SWE-Bench Pro
    output.py         the end of what a command prints
    parse.py          scores in what scorers print, and in the files and reports they leave
    grade.py          run one scorer, combine what several say

May import `sandbox`, `store`, `sources` and `model`.
"""
