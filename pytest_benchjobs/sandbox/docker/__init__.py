"""Containers of a Docker Engine.

    provider.py      starts sandboxes; services.py: what all containers of a process share
    creating.py      what of a scenario the engine is told; container.py: one container, from its start to its removal
      running.py       a command in it; terminal.py: one on our own streams
      transfer.py      how the engine reaches it: commands attached to, files in and out
      processes.py     what runs in it, and its first process, which ends all others
      mountpoints.py   whether mounts would come back
    images.py        images: found, pulled (pulling.py), built (build.py, dockerfile.py, context.py), kept (keeping.py)
      image_budget.py  which of them stay on the disk; image_record.py: those that jobs brought; registry.py: sizes
    network.py       the network of public trials, and those of services; rules.py: what the first is closed to
    compose/         services beside a container
    engine.py        how to reach the engine, and what its refusals mean; library.py: its client
    watch.py         what happens behind our back; storage.py: what containers write
    reaper.py, sweep.py  what is left of dead processes; health.py

The client library takes a tenth of a second to import. `provider.py`, `services.py`, `engine.py` and `images.py` do
without until a container is started.
"""
