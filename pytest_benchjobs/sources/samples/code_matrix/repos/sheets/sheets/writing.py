"""From rows to text."""

SEPARATOR = ","
LINE_END = "\r\n"


def dumps(rows):
    """The text of rows of texts; every row ends with CRLF."""
    return "".join(SEPARATOR.join(map(_field, row)) + LINE_END for row in rows)


def _field(text):
    if SEPARATOR in text or "\n" in text:
        return f'"{text}"'
    return text
