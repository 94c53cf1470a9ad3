"""Services beside the container of a trial, which a file of Docker Compose describes.

    plugin.py     the program Docker Compose: where it is, and how it is run
    project.py    the file as Docker Compose normalised it -> what `main` and each service get, within limits
    services.py   the services of one trial: networks, volumes, containers, from their start to their removal
    service.py    the container of one service: commands in it, files out of it

Docker Compose reads the file, and starts the services beside `main` in their order. `main` itself is a container as
that of any trial: it alone has an agent, and a way to models. Images are those of
`../images.py`; networks, volumes and the removal of everything are ours, for Docker Compose waits for services that it
asks to end.
"""
