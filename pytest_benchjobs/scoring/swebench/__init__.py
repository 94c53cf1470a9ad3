"""Scoring of SWE-bench and SWE-Bench Pro, by the rules of their official harnesses.

logs.py        log of a test runner -> status of each test; pure, a parser for each format
verdict.py     log of an `eval_script` -> resolved or not; pure
verified.py    the type `swebench`: runs the row's `eval_script`, and reads its log
pro.py         the type `swebench-pro`: runs the instance's own script and parser
"""
