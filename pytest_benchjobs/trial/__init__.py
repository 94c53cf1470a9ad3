"""One trial, from its start to its score. Begin to read at `steps.py`: it is the list of steps, in their order.

    run.py      tries: a new one after an infrastructure error; commits the one result
    steps.py    the steps of a try
      prepare.py    look for all it needs, ask the agent how it wants to be called      0
      start.py      resolve the image, create, fill and start a sandbox                 1, 2
      setup.py      run set-up steps, wait for the health check                         3
      work.py       run the agent (host_agent.py: on this machine), count its usage     3
      ending.py     kill every process of the agent, put programs back                  4
      artifacts.py  fetch what the scenario wants kept                                  5
      grading.py    run scorers in order (fresh.py: in a sandbox of their own)          5
      outcome.py    score and ending -> outcome                                         5
    context.py  what the steps of one try share
    phases.py   each phase's name, time and error class      limits.py  its timeout
    draft.py    what every result has, and what a try finds out

Beside the steps: `connection.py` (the way to models), `secrets.py` (what must not get out), `signature.py` (what
decides a result), `cancellation.py` (how a trial is told to stop) and `flight.py` (many trials at once).

May import `agents`, `gateway`, `scoring`, `sandbox`, `settings`, `store`, `sources` and `model`. Jobs stand above this
room: they know how many trials there are.
"""
