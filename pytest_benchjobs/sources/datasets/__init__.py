"""Datasets: one file for each, which makes scenarios from its rows or directories, faithful to its official scoring.

Each file has a function that an entry of the catalogue names (`source`), and depends on no other dataset.
"""
