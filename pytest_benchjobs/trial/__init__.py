"""One trial, from its start to its score. Begin to read at `steps.py`: it is the list of steps, with the file of each.

`run.py` has the tries: a new one after an infrastructure error; it commits the one result. `context.py` is what the
steps of one try share, `phases.py` a phase's name, time and error class, `limits.py` its timeout; `draft.py` has what
every result has, and what a try finds out. Beside the steps: `connection.py` (the way to models), `secrets.py` (what
must not get out), `signature.py` (what decides a result), `cancellation.py` (how a trial is told to stop) and
`flight.py` (many trials at once); `answering.py` has
what is different where a question needs no container.

May import `agents`, `gateway`, `scoring`, `sandbox`, `settings`, `store`, `sources` and `model`. Jobs stand above this
room: they know how many trials there are.
"""
