"""Sandboxes: the isolated places in which trials run. Begin to read at `protocol.py`.

    protocol.py      what a sandbox is, what a provider of sandboxes is
    providers.py     the providers that come with the package, by name: nothing outside this room knows one
      docker/          containers of a Docker Engine: `provider.py`, then `creating.py` and `container.py`
      bubblewrap/      the kernel's namespaces on this machine's own programs: `provider.py`, then `sandbox.py`
    archive.py       files in and out, as tar archives; carry/: exactly, from one sandbox into another
    inside.py        files and commands by one `serve` of our program, instead of a call of the engine each
    entrypoint.py    an image's own ENTRYPOINT, and when it is ready
    paths.py         absolute paths in a sandbox; shell.py: the shell that runs a command
    program/         the one program of ours inside sandboxes, in C: first process, door, rules of routing
    door.py          how an agent reaches the gateway
    handoff.py       the other end of the door; proxy.py: the proxy of a network `allowlist`, which has one too
    relay.py         what carries connections to both where no socket can be mounted
    command_timeout.py  deadline of a command, and its output as it comes
    host_command.py  a command of this machine, run as in a sandbox; host_files.py: files in and out by such programs

May import `system` and `model`.
"""
