"""Parts of plain pages: tables, forms and links. Everything in them is escaped here, in one place: `text_of`."""

from __future__ import annotations

import datetime
import html
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from pydantic import BaseModel

from ..store.text import clean, plain

Pairs = list[tuple[str, str]]
"""Parameters of a page and their values."""
Links = dict[str, Callable[[Any], str]]
"""Column -> the function that makes the address of a row."""
_TEXT = 20_000


def shell(title: str, body: str) -> str:
    """Return a page; `body` is HTML, the title text."""
    links = " ".join(
        f"<a href='{href(page)}'>{name}</a>"
        for page, name in (("jobs", "Jobs"), ("runs", "Runs"), ("compare", "Compare"), ("trend", "Trend"))
    )
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        f"<title>{text_of(title)} - benchjobs</title>"
        "<meta name='viewport' content='width=device-width'><link rel='icon' href='data:,'>"
        "<link rel='stylesheet' href='static/plain.css'></head>"
        f"<body><nav aria-label='Pages'>{links}</nav><main><h1>{text_of(title)}</h1>{body}</main></body></html>\n"
    )


def text_of(value: object, limit: int = _TEXT) -> str:
    """Return a value as HTML that shows it and does nothing else; at most `limit` characters of it."""
    if value is None:
        return ""
    if isinstance(value, float):
        value = f"{value:.4g}"
    elif isinstance(value, datetime.datetime):
        value = f"{value:%Y-%m-%d %H:%M:%S}"
    elif isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        value = ", ".join(value)
    elif not isinstance(value, str | int):
        data = value.model_dump(mode="json", by_alias=True) if isinstance(value, BaseModel) else value
        value = json.dumps(plain(data), ensure_ascii=False)
    return html.escape(clean(str(value), limit))


def href(page: str, **values: object) -> str:
    """Return the escaped link to a plain page."""
    given = {name: str(value) for name, value in values.items() if value is not None}
    return html.escape("?" + urlencode({"page": page, "plain": "1", **given}))


def table(
    caption: str,
    columns: str,
    rows: Iterable[Mapping[str, object]],
    links: Links | None = None,
    *,
    optional: bool = False,
) -> str:
    """Return a table of these columns of rows, named in one text; an `optional` one is left out without rows.

    `links` makes links of some columns.
    """
    names = columns.split()
    head = "".join(f"<th scope='col'>{text_of(name.replace('_', ' '))}</th>" for name in names)
    body = []
    for row in rows:
        cells = []
        for name in names:
            shown = text_of(row[name])
            link = (links or {}).get(name)
            cells.append(
                f"<td><a href='{link(row)}'>{shown}</a></td>" if link and shown else f"<td>{shown}</td>"
            )
        body.append(f"<tr>{''.join(cells)}</tr>")
    if not body:
        return "" if optional else f"<p>{text_of(caption)}: none</p>"
    return (
        f"<table><caption>{text_of(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table>"
    )


def fact_table(caption: str, pairs: Mapping[str, object]) -> str:
    """Return a table of terms and what they are; those without a value are left out."""
    rows = "".join(
        f"<tr><th scope='row'>{text_of(name.replace('_', ' '))}</th><td>{text_of(value)}</td></tr>"
        for name, value in pairs.items()
        if value is not None
    )
    return f"<table><caption>{text_of(caption)}</caption><tbody>{rows}</tbody></table>"


def rows_of(models: Iterable[BaseModel]) -> Iterator[dict[str, Any]]:
    """Yield the fields of models, without those of models in them."""
    for model in models:
        yield {
            (field.serialization_alias or name): getattr(model, name)
            for name, field in type(model).model_fields.items()
        }


def fields_of(model: BaseModel, names: str) -> dict[str, Any]:
    """Return some fields of a model, named in one text."""
    return {name: getattr(model, name) for name in names.split()}


def more(page: str, pairs: list[tuple[str, str]], following: object) -> str:
    """Return the link to the next page of this one; nothing on the last one."""
    if following is None:
        return ""
    values = [(name, value) for name, value in pairs if name != "after"]
    query = urlencode([("page", page), ("plain", "1"), *values, ("after", str(following))])
    return f"<p><a href='?{html.escape(query)}'>Next page</a></p>"


def form(
    page: str, pairs: Pairs, fields: Iterable[str], kept: Iterable[str] = (), button: str = "Show"
) -> str:
    """Return a form that asks for a page with these fields, and with what is given of the parameters in `kept`."""
    names = tuple(kept)
    hidden = "".join(
        f"<input type='hidden' name='{name}' value='{text_of(value)}'>"
        for name, value in (("page", page), ("plain", "1"), *(pair for pair in pairs if pair[0] in names))
    )
    return f"<form>{hidden}{' '.join(fields)} <button>{text_of(button)}</button></form>"


def field(name: str, title: str, pairs: Pairs) -> str:
    """Return a text field of a form, with the value that is given."""
    return f"<label>{text_of(title)} <input name='{name}' value='{text_of(dict(pairs).get(name))}'></label>"


def choice(name: str, title: str, options: Sequence[str], pairs: Pairs, empty: str | None = "all") -> str:
    """Return a list of options of a form; where several are given, several can be chosen. `empty` stands for none."""
    given = [value for key, value in pairs if key == name and value]
    listed = [*(one for one in dict.fromkeys(given) if one not in options), *options]
    if not listed:
        return ""
    shown = [] if empty is None else [f"<option value=''>{text_of(empty)}</option>"]
    shown += [
        f"<option value='{text_of(one)}'{' selected' if one in given else ''}>{text_of(one)}</option>"
        for one in listed
    ]
    several = " multiple" if len(given) > 1 else ""
    return f"<label>{text_of(title)} <select name='{name}'{several}>{''.join(shown)}</select></label>"
