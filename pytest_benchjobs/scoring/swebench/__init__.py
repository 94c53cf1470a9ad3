"""Scoring of SWE-bench and SWE-Bench Pro, by the rules of their official harnesses.

logs.py        log of a test runner -> status of each test; pure, a parser for each format
verified.py    the type `swebench`: runs the row's `eval_script`; its log -> resolved or not
pro.py         the type `swebench-pro`: runs the instance's own script and parser
"""
