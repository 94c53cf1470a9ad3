"""Datasets: one file for each, which makes scenarios of its rows or directories, faithful to its official scoring.

A file has a function that an entry of the catalogue names (`source`); it touches no other file.
"""
