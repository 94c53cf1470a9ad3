r"""Reading one value from a text, whole or not at all: a grammar of what an answer may be, not a list of what not.

    statement   lead? chain explanation?         "the answer is 468, because ..."
    chain       side ("=" side)*                 the value, and what it is the value of: "m + n = 468 = 4 * 117"
    value       wrapper* VALUE unit? wrapper*    an integer, a number, or a letter

Whatever has another form is not read: `468\sqrt{3}`, `468 or 469`, `2x = 468`, `468 mod 7`.
"""

# ruff: noqa: RUF001  what models write has such signs

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar

_T = TypeVar("_T")
Read = Callable[[str], _T | None]
"""Reads a value from the whole of a text; None: it is something else."""

LONGEST = 2000
"""Characters of the longest text that is read as one value with all that is around it."""
_NOT_SHOWN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe0f\ufeff\r]")
_STRUCK = r"~~[^~\n]*~~|<(?P<tag>s|del|strike)>[^<\n]*</(?P=tag)>|\\(?:[xb]?cancel|sout|st)\s*\{[^{}\n]*\}"
_FORMAT = (
    r"\\(?:boxed|[fm]?box|hbox|framebox|ans(?:wer)?|emph|underline|boldsymbol|bm|pmb|bf|it|rm|large|huge"
    r"|(?:text|math)(?:bf|it|md|normal|rm|sf|tt|up)?|left|right|displaystyle|limits)(?![A-Za-z])"
    r"|\\(?:text|f)?color(?:box)?(?:\s*\{[A-Za-z]+\})+|\\(?:begin|end)\s*\{\w+\*?\}(?:\{[lcr|]*\})?"
)
_TAG = (
    r"</?(?:b|strong|i|em|u|p|br|code|mark|span|div|big|font|center|h[1-6]|pre|(?:final_?)?answer)\b[^<>\n]{0,80}>"
    r"|<\|[^|<>\n]{1,40}\|>|</s>"
)
_ORNAMENT = r"[✅✔✓➡⭐∎■\U0001f389\U0001f3af\U0001f3c6\U0001f449]|\\(?:checkmark|(?:black)?square|qed|Box)(?![A-Za-z])"
_PLAIN = (
    (re.compile(f"{_STRUCK}|{_FORMAT}|{_TAG}|{_ORNAMENT}", re.IGNORECASE), " "),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r",?\\!"), ","),
    (re.compile(r"\\(?:[,;:> ]|q?quad(?![A-Za-z]))|~|&nbsp;|\{\s*\}|[^\S\n]"), " "),
    (re.compile(r"\$|\\[()\[\]]|\\\\"), " "),
    (re.compile(r"\\(?:times|cdot)(?![A-Za-z])"), "×"),
    (re.compile(r"\\approx(?![A-Za-z])"), "≈"),
    (re.compile(r"\\equiv(?![A-Za-z])"), "≡"),
    (re.compile(r"\\pmod\s*(?:\{\s*([0-9]+)\s*\}|([0-9]+))"), r"(mod \1\2)"),
)
"""Marks without meaning for a value, and other ways to write the same."""
_WIDE = str.maketrans("：＝－−﹣＋．，（）", ":=---+.,()")
_AROUND = " \n*_\"'`&"
_WRAPPERS = 30
"""Wrappers around wrappers that are taken off; who writes more has hardly written an answer."""
_BRACKETS = (("(", ")"), ("[", "]"), ("{", "}"))

_DIGITS = r"(?:[1-9][0-9]{0,2}(?:[, ][0-9]{3}){1,100}(?![0-9])|[0-9]{1,400})"
_DECIMAL = rf"(?:{_DIGITS}(?:\.[0-9]{{0,400}})?|\.[0-9]{{1,400}})"
_INTEGER = re.compile(rf"([+-]?{_DIGITS})(?:\.0{{0,100}})?(?![0-9])", re.ASCII)
_EXPONENT = r"10\s*(?:\^|\*\*)\s*(?:\{\s*([+-]?[0-9]{1,4})\s*\}|([+-]?[0-9]{1,4})(?![0-9]))"
_POWER = re.compile(rf"([+-]?){_EXPONENT}", re.ASCII)
_NUMBER = re.compile(rf"([+-]?{_DECIMAL})(?:[eE]([+-]?[0-9]{{1,4}})|\s*[×x*]\s*{_EXPONENT})?", re.ASCII)
_FRACTION = re.compile(
    rf"([+-]?)(?:\\[cdt]?frac\s*(?:\{{\s*({_DECIMAL})\s*\}}\s*\{{\s*({_DECIMAL})\s*\}}|([0-9])\s*([0-9]))"
    rf"|({_DECIMAL})\s*/\s*({_DECIMAL}))(?![0-9])",
    re.ASCII,
)
_MODULUS = re.compile(r"\s*\(\s*mod\s+([0-9]{1,400})\s*\)")
_UNITS = r"°|\^\s*\{?\s*(?:\\circ|∘|°)\s*\}?|\\degree|degrees?|(?:square |cubic |sq\.? )?units?"

_NOUN = (
    r"(?:answer|result|value|sum|total|product|number|count|remainder|area|length|perimeter|volume|distance|integer|solution"
    r"|probability|difference|ratio|option|choice|letter)s?"
)
_THE = (
    r"(?:(?:the|our|my|this|final|correct|right|best|total|required|desired|requested|numerical|exact)\s+)*"
)
_ABOUT = rf"{_THE}{_NOUN}(?:\s+(?:of|to|for)\s+[^=:\d\n]{{1,60}}?)?"
_LEAD = re.compile(
    r"(?:(?:→|⇒|∴|[=-]>|\\(?:implies|Rightarrow|rightarrow|to|therefore)(?![A-Za-z])|therefore|thus|hence|so|then|now"
    r"|simply|just|exactly|precisely|indeed|clearly|finally|equal to|given by"
    rf"|it's|(?:(?:it|this|that) )?is|be|equals|i (?:would )?(?:choose|pick|select)|{_ABOUT}\s*(?:is|:|equals)"
    rf"|{_THE}(?:answer|option|choice|letter|integer|number|value):?"
    r"|(?:according to|based on|by|from|given|considering)\s[^,.=\d\n]{1,80}(?=,))"
    rf"(?:[\s,:*_]+|$))+",
    re.IGNORECASE,
)
_REASON = (
    r"(?:because|since|where|so we"
    r"|as (?:we|required|desired|requested|expected|claimed|shown|above|found|computed))\b"
)
_WHICH = r"which is (?:an?|the|our|between|indeed|in)\b"
_NAMES = r"(?:with\s+|for\s+|where\s+)?[A-Za-z]\w*\s*=[^()]*"
_EXPLANATION = re.compile(
    rf"[\s,;:.*_`—–-]*(?:\b(?i:{_REASON}|{_WHICH})|\bwith\s+[A-Za-z]\w*\s*="
    rf"|\bis (?i:{_THE}{_NOUN}|correct|right)\b).*"
    r"|\s[—–]\s+(?:the|this|that|which|done)\b[^\d]*$"
    rf"|\s*\(\s*(?i:{_REASON}[^()]*|(?:the|in)\s[^()\d]*|{_NAMES}|=[^()]*|{_THE}{_NOUN})\)[\s.*_`]*$"
    r"|(?:(?<=\S)\s?[.;][*_`)\]}]*\s+|\s[—–-]\s+)"
    r"(?:Th(?:is|at|e|ese|us)|Here|It|We|I|Since|Because|Note|Check|Indeed|In|As|By|From|For|With|Where|Hence|Each|All"
    r"|Explanation|Reason(?:ing)?|Proof|Verification)\b[,:]?\s+[A-Za-z($].*",
    re.DOTALL,
)
"""Text that may follow a value: a reason, names of its parts, or another sentence. None of them is another answer."""

_NAME = (
    r"(?>(?:\\(?:angle|triangle)\s*)?(?:\\(?:alpha|beta|gamma|delta|theta|phi|omega|lambda|mu|Delta|Omega)|(?!not\b)[a-z]{1,3}|[A-Z]{1,4})"
    r"(?![A-Za-z])(?:_(?:\{\w{1,8}\}|\w))?'{0,3}(?:\([^()=]{0,40}\))?)"
)
_NAMED = re.compile(_NAME)
_PRODUCT = rf"{_NAME}(?:\s*×\s*{_NAME}|\s?[A-Za-z](?![A-Za-z])){{0,3}}"
_TERM = rf"(?:[0-9]{{0,6}}\s*×?\s*{_PRODUCT}(?:\^(?:\{{[0-9]\}}|[0-9]))?)"
_MEANT = re.compile(
    rf"\s*(?:{_PRODUCT}|\|[A-Z]\w?\||[A-Z]{{2}}\^(?:2|\{{2\}})|{_TERM}(?:\s*[+-]\s*{_TERM}){{1,9}}|(?i:{_ABOUT})"
    r"|(?=[^\n]*[0-9])(?:[0-9\s+*/^(){}.,×÷!_-]|\\[cdt]?frac|\\sqrt|\\[td]?binom|\\choose|\\[lr](?:floor|ceil)){1,200})\s*"
)
"""Left side of an equation for a number: a name, a sum of named terms, or arithmetic. Not `2x`, `x + 1`, `x^2`."""
_DERIVED = re.compile(
    r"(?=.*\w)(?:(?<![A-Za-z])[A-Za-z](?![A-Za-z])|[0-9\s+*/^(){}.×÷!_|-]"
    r"|\\(?:[cdt]?frac|sqrt|[td]?binom|choose|sum|prod|pi|[lr]floor|[lr]ceil|[cl]?dots|log|ln|sin|cos|tan)(?![A-Za-z]))+"
)
"""Text that may stand between a name and its value: `S = 2(a + b) = 468`."""


def plain(text: str) -> str:
    """Return a text without formatting that says nothing about a value."""
    text = _NOT_SHOWN.sub("", text).translate(_WIDE)
    for pattern, instead in _PLAIN:
        text = pattern.sub(instead, text)
    return text.replace("~", " ")


def bare(text: str) -> str:
    """Return a plain text without what wraps it: quotes, emphasis, brackets around all of it, or that none opened."""
    for _ in range(_WRAPPERS):
        before = text
        if text.startswith("<") and text.endswith(">"):
            text = text[1:-1]
        text = text.strip(_AROUND).lstrip("“‘«").rstrip("”’»,;")
        if text.endswith(".") and not text.endswith(".."):
            text = text[:-1]
        for opener, closer in _BRACKETS:
            text = text.removeprefix(closer)
            if text.startswith(opener) and text.endswith(closer) and _is_one(text[1:-1], opener, closer):
                text = text[1:-1]
            elif text.endswith(closer) and text.count(closer) > text.count(opener):
                text = text[:-1]
        if text == before:
            break
    return text


def _is_one(inside: str, opener: str, closer: str) -> bool:
    """Return True if the brackets around a text belong to each other: not in `(1)(2)` or `{3}{4}`."""
    depths = itertools.accumulate((char == opener) - (char == closer) for char in inside)
    return min(depths, default=0) >= 0


def statement(text: str, read: Read[_T], *, equation: str = "=") -> _T | None:
    """Return the one value that a text states; None: it states none, several, or something else."""
    text = plain(text[: LONGEST + 1])
    if len(text) > LONGEST:
        return None
    text = re.sub(r"^#+\s+", "", bare(text))
    if lead := _LEAD.match(text):
        text = text[lead.end() :]
    for whole in (text, *(text[: found.start()] for found in _EXPLANATION.finditer(text))):
        value = chain(bare(whole), read, equation) if equation else read(bare(whole))
        if value is not None:
            return value
    return None


def chain(text: str, read: Read[_T], equation: str) -> _T | None:
    """Return the value of an equation; None: its sides have several, or one side is neither a value nor a name."""
    sides = [side for side in map(bare, re.split(f"[{equation}≡]", text)) if side]
    values = [read(side) for side in sides]
    found = [value for value in values if value is not None]
    if not found or any(value != found[0] for value in found):
        return None
    inner = range(1, len(sides) - 1) if _NAMED.fullmatch(sides[0]) else ()
    is_meant = all(
        value is not None or _MEANT.fullmatch(side) or (number in inner and _DERIVED.fullmatch(side))
        for number, (side, value) in enumerate(zip(sides, values, strict=True))
    )
    return found[0] if is_meant else None


def integer(text: str, units: str = "") -> int | None:
    """Read a whole number, also with grouped thousands, `.0`, or the modulus that it is a remainder of."""
    found = _INTEGER.match(text)
    if found is None:
        return None
    value, rest = int(_digits(found[1])), text[found.end() :]
    if modulus := _MODULUS.match(rest):
        return value if 0 <= value < int(modulus[1]) and modulus.end() == len(rest) else None
    return value if _is_unit(rest, units) else None


def number(text: str, units: str = "") -> int | float | None:
    """Read a finite number: decimal, in scientific notation, a power of ten, or a fraction."""
    if (whole := integer(text, units)) is not None:
        return whole
    found = _FRACTION.match(text) or _POWER.match(text) or _NUMBER.match(text)
    if found is None or not _is_unit(text[found.end() :], units):
        return None
    if found.re is _FRACTION:
        sign, *parts = found.groups()
        above, below = (Fraction(_digits(part)) for part in parts if part is not None)
        return _finite((-above if sign == "-" else above) / below) if below else None
    digits, *powers = found.groups()
    digits = f"{digits}1" if found.re is _POWER else _digits(digits)
    power = int(next(filter(None, powers), 0))
    return _finite(Fraction(digits) * Fraction(10) ** power)


def letter(text: str, letters: str) -> str | None:
    """Read a letter, alone or before the text of its option: `C) 5 eV`."""
    found = re.match(
        rf"(?:(?i:option|choice)\s+)?[(\[{{\s]{{0,3}}([{letters}{letters.lower()}])(?![A-Za-z0-9'])", text
    )
    if found is None:
        return None
    rest = text[found.end() :]
    if not bare(rest).strip("!"):
        return found[1].upper()
    text_of_option = re.match(r"[*_`\s]*(?:[)\]}.:]|\s[—–-]\s|\s(?=\())[*_`\s]*", rest)
    another = rf"\W*(?:(?:or|and|nor)\b|(?i:option |choice )?[{letters}]\W*(?:$|(?:or|and)\b|[).,:/&]))"
    if text_of_option is None or re.match(another, rest[text_of_option.end() :]):
        return None
    return found[1].upper()


def _is_unit(rest: str, units: str) -> bool:
    rest = bare(rest)
    return not rest or re.fullmatch(_UNITS + (units and f"|{units}"), rest, re.IGNORECASE) is not None


def _digits(text: str) -> str:
    """Return digits as `Fraction` reads them."""
    return re.sub("[, ]", "", text)


def _finite(value: Fraction) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None
