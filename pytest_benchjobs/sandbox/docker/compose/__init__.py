"""Services beside the container of a trial, which a file of Docker Compose describes.

Docker Compose reads the file, and starts the services beside `main` in their order. `main` itself is a container as
that of any trial: it alone has an agent, and a way to models. Images are those of `../images.py`; networks, volumes and
the removal of everything are ours, for Docker Compose waits for services that it asks to end.
"""
