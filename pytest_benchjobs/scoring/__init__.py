"""Scorers, which grade a finished trial. Start reading at `protocol.py`, then `builtin.py`.

    protocol.py       the protocol: a finished trial in, a number within [0, 1] out
    needs.py          what a type of scorer needs of a trial before it grades
    builtin.py        the types that come with the package (own_runner.py: how `tests` runs pytest)
    run_tests.py      the program in a sandbox that runs pytest or unittest
    bench_run.py      programs of the agent, run for a scorer (benchjobs_run.py: a module for tests in a sandbox)
    answering.py      the type `answer`: answers.py compares a short answer, replies.py finds it in a text
    ast_grep.py       the type `ast_grep`: patterns in syntax trees
    expected_files.py the type `files`: files that the agent left
    result_file.py    the type `result_file`: a number that an evaluation leaves in a file
    python.py         the type `python`: a script with requirements of its own (wheels.py resolves them)
    metrics.py        named metrics: values that scorers report beside the score
    judge.py          the type `judge`: a model grades by criteria
    registering.py    scorers of others: the decorator `scorer`, entry points
    params.py         parameters of scorers, checked
    bigcodebench/     the type of BigCodeBench
    swebench/         the types of SWE-bench and SWE-Bench Pro
    output.py         the end of a command's output
    scores.py         scores in the output of scorers, and in the files and reports they leave
    told.py           the part of a result that an agent may know before its next turn
    grade.py          run one scorer, combine the scores of several

May import `sandbox`, `store`, `sources` and `model`.
"""
