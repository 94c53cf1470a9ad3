"""The program that runs a solution of BigCodeBench with its tests, in the container for grading.

runner.py      the parent: knows the task, starts the children, judges what they report
examine.py     the child: runs the solution, then the tests, in one module
pristine.py    `unittest` as it was, and results of tests that see whether it still is
probes.py      tests of the tests, some of which have to fail
emulation.py   what the official harness changes for solutions
sanitize.py    the program in a model's reply; pure

It is Python 3.10 or newer, with the standard library alone.
"""
