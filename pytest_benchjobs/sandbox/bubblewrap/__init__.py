"""Sandboxes without a container engine: the kernel's namespaces, set up by bubblewrap, on the programs of this machine.

They keep trials apart from each other and from what they have no business with. They are no boundary against an agent
that wants out, as a container with its seccomp filter and limits is one.
"""
