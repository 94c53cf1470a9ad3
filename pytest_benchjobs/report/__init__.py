"""Reports for people and CI systems: JUnit, JSON, Markdown, documents and lines of commands.

Start reading with `write.py`; `documents/` has what commands print as JSON. Imports `analysis` and below.
"""
