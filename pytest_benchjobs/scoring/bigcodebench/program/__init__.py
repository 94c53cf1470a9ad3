"""The program that runs a solution of BigCodeBench with its tests, in the container for grading.

runner.py      the parent: knows the task, starts the children, judges their reports
examine.py     the child: runs the solution, then the tests, in one module, with `unittest` in its original state
probes.py      tests of the tests, some of which have to fail
emulation.py   the changes of the official harness for solutions
sanitize.py    the program in a model's reply; pure

It runs on Python 3.10 or newer, with the standard library alone.
"""
