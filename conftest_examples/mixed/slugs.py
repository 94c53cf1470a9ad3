import re


def slug(text: str) -> str:
    """The text in lower case, with dashes for everything that is no letter or digit."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
