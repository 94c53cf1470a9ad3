"""Scoring of BigCodeBench, calibrated, by the rules of its official harness.

scorer.py      the type `bigcodebench`, on this machine: reads the agent's solution, copies the program into the
container program/       the program that runs the tests in the container, without trusting the solution
"""
