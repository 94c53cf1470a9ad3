"""Documents made at random from the JSON Schemas that are published for them, with one thing wrong in most."""

from __future__ import annotations

import copy
import dataclasses
import random
import re
from typing import Any

TEXTS = ("a", "one", "a-b.c", "A_1", "/app", "x.txt", "echo 1", "1G", "10%", "2/4", "0.5", "2027-01-31", "a.org",
         "public", "http://a/", "name@1", "codex:m", "f" * 40, "sha512-" + "A" * 88)  # fmt: skip
"""Texts for values; where there is a pattern, those that match it."""
ODD_TEXTS = ("", " ", "-", "=", "--", "..", "/", "~", "*", "[", "(", "{x}", "${X}", "a\nb", "\x1b[31m", "\u202e\x9b31m",
             "nan", "1e999", "1" + "0" * 400, "n" * 300, "x" * 100_000, "a/" * 3000, "é\ufeff", "@x", "a=b=c", "::",
             "0x10", "(a+)+$", "👍" * 50)  # fmt: skip
ODD = (None, True, False, 0, -1, 1.5, 10**17, 10**400, 1e308, [], {}, [[]], [None], [1, "a"], {"a": 1}, {"": {"": []}},
       *ODD_TEXTS)  # fmt: skip
UNKNOWN = "zzz_unknown"
"""A key that no schema has, and that is like none."""
_DEEPEST = 6
_TYPES = {dict: "object", list: "array"}


@dataclasses.dataclass(frozen=True)
class Case:
    """A document, and what was done to it."""

    data: Any
    done: str
    """In words, for a failure."""
    has_unknown: bool = False


class Maker:
    """Maker of documents of one schema: of nothing but the schema, and of a good document with a few keys added."""

    def __init__(self, schema: dict[str, Any], good: dict[str, Any], rng: random.Random) -> None:
        self._schema, self._good, self._rng = schema, good, rng
        self._closed: list[dict[str, Any]] = []
        """Tables of the document being made that may have no other keys."""

    def case(self) -> Case:
        """Make a document; most have one thing wrong."""
        self._closed = []
        if self._rng.random() < 0.2:
            data = self._made(self._schema, 0)
        else:
            data = self._grown(self._schema, copy.deepcopy(self._good))
        if not _places(data):
            return Case(data, "nothing")
        add_unknown = self._add_unknown if self._closed else self._replace
        how = self._rng.choice(
            (add_unknown, self._replace, self._replace, self._misspell, self._remove, None)
        )
        return Case(data, "nothing") if how is None else how(data)

    def _grown(self, schema: dict[str, Any], value: Any) -> Any:
        """Add keys of the schema to the tables of a value."""
        schema = self._followed(schema)
        if "if" in schema:
            return self._grown(schema["then" if "from" in value else "else"], value)
        for one in schema.get("anyOf", ()):
            if self._followed(one).get("type") == _TYPES.get(type(value)):
                return self._grown(one, value)
        if isinstance(value, list):
            return [self._grown(schema.get("items", {}), item) for item in value]
        if not isinstance(value, dict):
            return value
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        for key in value:
            inner = known.get(key, others if isinstance(others, dict) else {})
            value[key] = self._grown(inner, value[key])
        if others is False:
            self._closed.append(value)
            left = [key for key in known if key not in value]
            if left and self._rng.random() < 0.15:
                key = self._rng.choice(left)
                value[key] = self._made(known[key], 2)
        return value

    def _followed(self, schema: dict[str, Any]) -> dict[str, Any]:
        if "$ref" not in schema:
            return schema
        found: dict[str, Any] = self._schema["$defs"][schema["$ref"].rpartition("/")[2]]
        return found

    def _made(self, schema: dict[str, Any], depth: int) -> Any:
        schema = self._followed(schema)
        for many in ("anyOf", "oneOf"):
            if many in schema:
                return self._made(self._rng.choice(schema[many]), depth)
        if "if" in schema:
            return self._made(schema[self._rng.choice(("then", "else"))], depth)
        if "enum" in schema or "const" in schema:
            return self._rng.choice(schema.get("enum", [schema.get("const")]))
        make = {"object": self._table, "array": self._list, "string": self._text}.get(schema.get("type", ""))
        if make is not None:
            return make(schema, depth)
        match schema.get("type"):
            case "integer" | "number":
                return self._number(schema)
            case "boolean":
                return self._rng.random() < 0.5
            case "null":
                return None
        return self._rng.choice(("x", 1, True, [1], {"k": "v"}))

    def _table(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        share = 0.5 / (1 + depth) if depth < _DEEPEST else 0.0
        made = {
            key: self._made(one, depth + 1)
            for key, one in known.items()
            if key in schema.get("required", ()) or self._rng.random() < share
        }
        if isinstance(others, dict):
            names = {"type": "string", **schema.get("propertyNames", {})}
            names |= {"pattern": next(iter(schema.get("patternProperties", {"": 0})))}
            for name in {self._text(names, depth): 0 for _ in range(self._rng.randrange(3))}:
                made[name] = self._made(others, depth + 1)
        elif others is False:
            self._closed.append(made)
        return made

    def _list(self, schema: dict[str, Any], depth: int) -> list[Any]:
        least = schema.get("minItems", 0)
        count = self._rng.randint(least, max(least, 2 if depth < _DEEPEST else 0))
        return [self._made(schema.get("items", {}), depth + 1) for _ in range(count)]

    def _text(self, schema: dict[str, Any], _depth: int) -> str:
        pattern = schema.get("pattern", "")
        fitting = [text for text in TEXTS if re.search(pattern, text)]
        return self._rng.choice(fitting or TEXTS)

    def _number(self, schema: dict[str, Any]) -> float:
        least = schema.get("minimum", schema.get("exclusiveMinimum", 0))
        most = schema.get("maximum", schema.get("exclusiveMaximum", least + 100))
        if schema["type"] == "integer":
            return self._rng.randint(int(least) + 1, max(int(most), int(least) + 1))
        return round(self._rng.uniform(least, most), 3)

    def _add_unknown(self, data: Any) -> Case:
        table = self._rng.choice(self._closed)
        table[UNKNOWN] = self._rng.choice((1, "x", {"a": 1}, [1]))
        return Case(data, f"an unknown key beside {list(table)}", has_unknown=True)

    def _replace(self, data: Any) -> Case:
        container, key = self._rng.choice(_places(data))
        container[key] = value = self._rng.choice(ODD)
        return Case(data, f"{key!r} is {str(value)[:40]!r}")

    def _misspell(self, data: Any) -> Case:
        container, key = self._rng.choice(_places(data))
        if isinstance(container, dict):
            container[self._rng.choice(("", "a b", key + "s", key[1:], "n" * 300, "\u202e"))] = container.pop(
                key
            )
        return Case(data, f"{key!r} has another name")

    def _remove(self, data: Any) -> Case:
        container, key = self._rng.choice(_places(data))
        del container[key]
        return Case(data, f"{key!r} is removed")


def _places(data: Any) -> list[tuple[Any, Any]]:
    """Return every place of a document: a table or list, and a key or index."""
    keys = [*data] if isinstance(data, dict) else [*range(len(data))] if isinstance(data, list) else []
    return [(data, key) for key in keys] + [deeper for key in keys for deeper in _places(data[key])]
