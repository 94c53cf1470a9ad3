"""One trial, from its start to its score. Start reading in `steps.py`: it lists the steps, with the file of each.

`run.py` makes the tries, a new one after an infrastructure error, and commits the one result. `context.py` holds what
the steps of a try share, `limits.py` their timeouts, and `draft.py` assembles results. Beside the steps:
`connection.py` (access to models), `secrets.py` (redaction), `signature.py` (the digest of what decides a result),
`cancellation.py` (requests to stop), `flight.py` (many trials at once) and `answering.py` (questions, which need no
container).

May import `agents`, `gateway`, `scoring`, `sandbox`, `settings`, `store`, `sources` and `model`. Jobs are above this
room.
"""
