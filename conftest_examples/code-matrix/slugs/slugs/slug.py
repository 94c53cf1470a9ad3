"""One title."""


def slug(title):
    """The title with letters, digits and hyphens only."""
    return title.lower().replace(" ", "-")
