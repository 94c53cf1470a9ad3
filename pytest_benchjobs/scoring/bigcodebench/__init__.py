"""Scoring of BigCodeBench, calibrated, by the rules of its official harness.

scorer.py      the kind `bigcodebench`, on this machine: reads what the agent left, puts the program in
program/       the program in the container that runs the tests, and does not believe the solution
"""
