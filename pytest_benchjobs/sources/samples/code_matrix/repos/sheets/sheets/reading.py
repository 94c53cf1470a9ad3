"""From text to rows."""


def loads(text):
    """The rows of a text. Lines end with CRLF or LF; the last one need not."""
    rows, row, field = [], [], []
    quoted = False
    at = 0
    while at < len(text):
        char = text[at]
        if quoted:
            if char == '"':
                quoted = False
            else:
                field.append(char)
        elif char == '"':
            quoted = True
        elif char == ",":
            row.append("".join(field))
            field = []
        elif char in "\r\n":
            if text[at : at + 2] == "\r\n":
                at += 1
            rows.append([*row, "".join(field)])
            row, field = [], []
        else:
            field.append(char)
        at += 1
    if quoted:
        raise ValueError("a quoted field has no end")
    if row or field:
        rows.append([*row, "".join(field)])
    return rows
