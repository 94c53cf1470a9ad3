r"""Finding the final answer in a text: all of a file, or a place in a model's reply. Pure functions.

    \boxed{...}              also \fbox{...}, \boxed 468
    <answer>...</answer>     also <final_answer>
    ANSWER: ...              at the beginning of a line or in capitals; `# Answer`, `**Answer** =`, `"answer": ...`
    answer: ...              within a sentence, if it goes on with a value
    the answer is ...        the same, if there is none of the others

The last place that says anything counts. One that is empty, holds a placeholder (`ANSWER: N`) or refers to another
(`see above`) says nothing. What stands there is read whole, by the grammar of `values.py`, or not at all.
"""

# ruff: noqa: RUF001  what models write has such signs

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

from .values import LONGEST, Read, bare, plain, statement

_T = TypeVar("_T")
SEARCHED = 100_000
"""Characters of an answer in which a pattern is searched for."""
_CANDIDATES = 50
_FAR = 20_000
"""Characters between the beginning of a place and its end."""
_NEAR = 80
_BRACKET = re.compile(r"[\[\]]")
_NESTED = re.compile(r"\[\s*[\[{]")
_FENCE = re.compile(r"```[A-Za-z]*\n?(.*?)```", re.DOTALL)

_BOX = re.compile(
    r"\\(?:boxed|fbox|framebox|ans(?:wer)?)(?![A-Za-z])\s*(\{|[+-]?[0-9][^\s$\\{}]*|[A-Z](?![A-Za-z]))?"
)
_TAG = re.compile(r"([<\[])((?:final[ _-]?)?ans(?:wer)?)[>\]]", re.IGNORECASE)
_WORD = re.compile(
    r"(?<![A-Za-z])(?:ans(?:wers?)?(?:\s+(?:choice|option|letter))?|(?:correct|right|best)\s+(?:choice|option|letter))"
    r"(?![A-Za-z])",
    re.IGNORECASE,
)
_CLOSED = r"(?:[ \t*_`\"'”’)\]}$]|</?\w+>|\\[)\]]){0,20}"
_COLON = re.compile(rf"{_CLOSED}\.?(?::|：|==?|＝|\||→|[=-]>|—|\\(?:to|rightarrow|implies)(?![A-Za-z]))")
_ALONE = re.compile(rf"{_CLOSED}\n")
_LINE_BEGINS = re.compile(
    r"(?:[\s>#*_`•+\"'“‘$(\[{|✅-]|\d{1,2}[.)]\s|<\w+>|\\[A-Za-z]+\*?\s*\{|\\(?:bf|it|large|huge)\b|\\[(\[])*"
    r"(?:(?:so|thus|therefore|hence|my|our|the|and|final|correct|numerical),?[\s_*-]+)*",
    re.IGNORECASE,
)
_IS = re.compile(
    r"(?:\s+(?:to|of|for)\b[^.\n:=]{0,80}?|,[^,.\n]{1,40}(?=,))?[ \t*_,`\"']+"
    r"(?:(?:therefore|thus|then|hence|simply|indeed|just),?\s+)?"
    r"(?:is|(?:would|should|must|will|has to|turns out to|comes out to) be|comes out to|equals)\b[ \t*_]*:?"
    r"|\s+of\b",
    re.IGNORECASE,
)
_SUPPOSES = re.compile(
    r"\b(?:if|suppos\w+|assum\w+|whether|unless|say|doubt|not (?:sure|certain|clear|true))\b[^.]*$",
    re.IGNORECASE,
)
_IS_IT = re.compile(
    r"((?:[^\n.;]|\.(?=\d)){1,200}?)\s+is\s+(?:(?:thus|therefore|indeed)\s+)?(?:the|our|my)\s+(?:final\s+|correct\s+)?$",
    re.IGNORECASE,
)
_ENDS_VALUE = re.compile(r"\s*(?:[\]}]|,?\s*(?:\"|$))|[^\S\n]*,?[^\S\n]*\n")
"""Text behind a value of JSON."""
_ENDS_PAIR = re.compile(r",\s*\"\w+\"\s*:")
_COMMAND = re.compile(r"[\b\f\t\r][a-z]")
"""Rest of a command of TeX, as `\\frac` or `\\boxed`, whose backslash began an escape of JSON."""
_SAYS_NOTHING = re.compile(
    r"N|X{1,3}|x{2,3}|\W*|\w*(?:ANSWER|LETTER|INTEGER)"
    r"|(?:(?:an?|your|the|my|final|correct|single|numerical|insert|here|goes|answer|number|integer|letter|value|result)[\s_-]*)+"
    r"|(?:[a-z',]+ ){0,6}(?:see|above|below|boxed|follows|following)(?: [a-z]+){0,3}",
)
_VALUE_LIKE = re.compile(
    r"[+-]?\s*(?:[0-9]|\.[0-9]|\\[cdt]?frac)|\(?[A-Za-z]\w?\s*(?:[=+-]|\W*$|\W*(?:or|and)\b|[).:,])"
)
_OPENS_BLOCK = re.compile(r"\s*[*_>]*\s*(```[A-Za-z]*\s|```|\$\$\s*$|\\\[\s*$)", re.MULTILINE)
_CLOSES = {"$": "$$", "\\": "\\]", "`": "```"}
_JOINED = re.compile(
    r"\.?\s*(?:or|and|to|through|nor)\b\s*(?:possibly|maybe|perhaps|also)?\W*|\s*[/–—&|-](?=\S)\s*|\s*[,;]\s*(?=\S+\s*$)"
)
"""Text that joins two answers."""
_TAKES_BACK = re.compile(
    r"^(?:(?:no|wait|actually|correction|sorry|oops|hmm|rather|instead|or|and|maybe|it is|i mean)\b[\s,:.!—-]*)+",
    re.IGNORECASE,
)
_GOES_ON_TO = re.compile(
    r"(?:^|[=≡≈:,.;→⇒—|]|[=-]>|\\(?:implies|Rightarrow|rightarrow|Longrightarrow|to|equiv|cong|therefore|iff)"
    r"|(?<![\\A-Za-z])[A-Za-z]{2,})$"
)
_DENIES = re.compile(r"(?:\b(?:not|cannot|neither|nor|never|than|least|most)|n't)(?: be)?$", re.IGNORECASE)
_ENDS = re.compile(
    r"$|[=≡≈→⇒]|\((?=[A-Za-z]{2,}|[A-Za-z]?\w*\s*=)|\\pmod|\\tag|°|\^\{?\\circ|\\degree|(?!mod\b|times\b|choose\b)[A-Za-z]{2,}|[.,;:]+(?:\s|$)"
)


class Wrong(Exception):
    """The answer is not right; the message says in which way, without the answer or the expected one."""


class Place(NamedTuple):
    """A place where a final answer may stand."""

    start: int
    at: int
    """Beginning of what is read."""
    end: int
    inside: str | None
    """None: it is no value, as it is open or a part of a larger expression."""
    is_bounded: bool = True
    """False: what is read may go on after `inside`, which is the rest of a line."""
    is_sure: bool = True
    """False: it counts only if it goes on with a value."""
    is_weak: bool = False
    """True: it counts only if there is no other."""
    is_key: bool = False
    """True: it is the value of a key in JSON."""


def answer_in(text: str, read: Read[_T], *, equation: str = "=") -> _T | None:
    """Return the final answer of a reply; None: it has no place of one. Wrong: what stands there is not one value."""
    found = places(text)
    if not found and len(text) <= LONGEST:
        return statement(text, read, equation=equation)
    for place in found:
        value = None if place.inside is None else statement(place.inside, read, equation=equation)
        if value is not None and not _has_another(text, place, value, read):
            return value
        if value is not None or says_something(place):
            raise Wrong("what it gives as its answer is not one value that can be read")
    return None


def says_something(place: Place) -> bool:
    """Return True if a place has an answer, readable or not."""
    if place.inside is None:
        return True
    said = bare(plain(place.inside[:LONGEST]))
    if place.is_sure:
        return _SAYS_NOTHING.fullmatch(said.partition(",")[0]) is None
    return _VALUE_LIKE.match(said) is not None


def places(text: str) -> list[Place]:
    """Return the places of a final answer, the last first, and weak ones after all others."""
    found = [*_boxes(text), *_tags(text), *_words(text)]
    found.sort(key=lambda place: (not place.is_weak, place.start), reverse=True)
    return found[:_CANDIDATES]


def _boxes(text: str) -> Iterator[Place]:
    for box in list(_BOX.finditer(text))[-_CANDIDATES:]:
        start, at = box.start(), box.end()
        if box[1] is None:
            continue
        if box[1] == "{":
            closes = _closing(text, at)
            inside, end = (None, at) if closes is None else (text[at:closes], closes + 1)
        else:
            inside, end, at = box[1], at, at - len(box[1])
        yield Place(start, at, end, inside if _is_apart(text, start, end) else None)


def _closing(text: str, at: int) -> int | None:
    """Return the position of the brace that closes the one before `at`."""
    depth = 1
    for brace in re.compile(r"\\[{}]|[{}]").finditer(text, at, at + _FAR):
        depth += (brace[0] == "{") - (brace[0] == "}")
        if depth == 0:
            return brace.start()
    return None


def _is_apart(text: str, start: int, end: int) -> bool:
    """Return True if a box is no part of a larger expression in its formula or line."""
    if _DENIES.search(plain(text[max(0, start - _NEAR) : start]).rstrip(" *_`\"'(“[{&#\\")):
        return False
    *opened, before = re.split(r"(\$|\\[(\[]|\n)", text[max(0, start - _NEAR) : start])
    after, *closed = re.split(r"(\$|\\[)\]]|\n)", text[end : end + _NEAR], maxsplit=1)
    after = plain(after).strip(" {}*_`\"'”)")
    if opened[-1:] in ([], ["\n"]):
        before = re.sub(r"^\s*(?:[-•*+>#]+\s+|\d{1,2}[.)]\s+)+", "", before)
        after = re.sub(r"^!$", "", after) if closed[:1] in ([], ["\n"]) else after
    return bool(_GOES_ON_TO.search(plain(before).rstrip(" *_`\"'(“[{}&#\\")) and _ENDS.match(after))


def _tags(text: str) -> Iterator[Place]:
    for tag in list(_TAG.finditer(text))[-_CANDIDATES:]:
        closes = re.compile(rf"[<\[]/{tag[2]}", re.IGNORECASE).search(text, tag.end(), tag.end() + _FAR)
        if closes:
            yield Place(tag.start(), tag.end(), closes.start(), text[tag.end() : closes.start()])
        elif tag[1] == "<":
            inside, end = _behind(text, tag.end())
            yield Place(tag.start(), tag.end(), end, inside, is_bounded=False)


def _words(text: str) -> Iterator[Place]:
    for word in list(_WORD.finditer(text))[-4 * _CANDIDATES :]:
        start, end = word.span()
        line = text[max(text.rfind("\n", 0, start) + 1, start - 200) : start]
        begins = _LINE_BEGINS.fullmatch(line) is not None
        if colon := _COLON.match(text, end):
            sure = begins or word[0].isupper()
            if line.endswith('"') and text[end] == '"':
                said, end = _value_of_key(text, colon.end())
                yield Place(start, colon.end(), end, said, is_sure=sure, is_key=True)
                continue
            at, weak = colon.end(), False
        elif begins and (alone := _ALONE.match(text, end)):
            at, sure, weak = alone.end(), True, False
        elif (verb := _IS.match(text, end)) and not _SUPPOSES.search(line):
            at, sure, weak = verb.end(), False, True
        elif before := _IS_IT.search(line):
            yield Place(
                start, start - len(line) + before.start(), end, before[1], is_sure=False, is_weak=True
            )
            continue
        elif begins and text[end : end + 1] in (" ", "\t"):
            at, sure, weak = end, False, False
        else:
            continue
        inside, end = _behind(text, at)
        yield Place(start, at, end, inside, is_bounded=False, is_sure=sure, is_weak=weak)


def _value_of_key(text: str, at: int) -> tuple[str | None, int]:
    r"""Return the value of a key as it is written, and its end; None: a table or list.

    Models write what is no JSON, too: `{"answer": 1/2}`, and `"\frac{1}{2}"`, which would begin with a form feed.
    """
    value = _decoded(text, at)
    if value is not None and _ENDS_VALUE.match(text, value[1]):
        if isinstance(value[0], str) and _COMMAND.search(value[0]):
            return text[at : value[1]].strip()[1:-1].replace(r"\\", "\\"), value[1]
        return None if isinstance(value[0], list | dict) else str(value[0]), value[1]
    ends = _ENDS_PAIR.search(text, at, at + LONGEST)
    said, end = _behind(text[: ends.start()] if ends else text, at)
    return None if re.match(r"\s*[\[{]", said) else said, end


def _behind(text: str, at: int) -> tuple[str, int]:
    """Return the rest of a line, else the next line or block that is not empty, and its end."""
    for number_of_line in range(8):
        if block := _OPENS_BLOCK.match(text, at):
            begins = block.end()
            closes = text.find(_CLOSES[block[1][0]], begins, begins + _FAR)
            return (text[begins:closes], closes) if closes >= 0 else (text[at:begins], begins)
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        line = text[at : min(end, at + LONGEST + 1)]
        if number_of_line and (row := re.fullmatch(r"\s*(?:>|\|(?=[^|]*\|\s*$))([^|]*)\|?\s*", line)):
            line = row[1]
        elif re.fullmatch(r"[^|]*\|\s*", line):  # the end of a row
            line = line.rstrip()[:-1]
        if not re.fullmatch(r"[\s|:=(\[{-]*", bare(plain(line))) or end == len(text):
            return line, end
        at = end + 1
    return "", at


def _has_another(text: str, place: Place, value: _T, read: Read[_T]) -> bool:
    """Return True if another answer is joined to one: `or 469`, or a value alone in the next line."""
    near = text[place.end : place.end + _NEAR]
    following = next((line for line in near.split("\n")[1:] if line.strip()), "")
    after = plain(near.partition("\n")[0] if place.is_bounded else following).lstrip(" *_`\"'”)]{}$.")
    joined = _JOINED.match(after)
    others = [] if place.is_bounded else [bare(_TAKES_BACK.sub("", after))]
    if joined and (token := re.match(r"[^\s,;]+", bare(after[joined.end() :]))):
        others.append(bare(token[0]))
    near = text[max(0, place.start - _NEAR) : place.start]
    if either := re.search(r"(\S+)[\s{]*(?:\bor|/)$", plain(near).rstrip(" *_`\"'“([{}$")):
        others.append(bare(either[1]))
    return is_second(text, place) or any(read(other) not in (None, value) for other in others)


def is_second(text: str, place: Place) -> bool:
    """Return True for the second of two boxes that are joined, by `or` or signs."""
    before = text[max(0, place.start - _NEAR) : place.start]
    return re.search(r"\\f?box(?:ed)?\{[^{}]*\}(?:\band\b|\bor\b|[^A-Za-z.=\n]){0,20}$", before) is not None


def number_in(text: str, read: Read[_T]) -> _T:
    """Return the number of a reply: its final answer, else its last fence or last line. Wrong: there is none."""
    value = answer_in(text, read, equation="=≈")
    candidates = _fences_and_last_line(text) if value is None else ()
    found = (statement(candidate, read, equation="=≈") for candidate in candidates)
    value = next((one for one in found if one is not None), value)
    if value is None:
        raise Wrong("it has no number after ANSWER:")
    return value


def value_in(text: str, *, is_reply: bool) -> Any:
    """Return JSON: all of a file; of a reply the final answer, last fence or last line. Wrong: there is none."""
    try:
        return _json(text)
    except ValueError:
        if not is_reply:
            raise Wrong("it is not JSON") from None
    referred: list[str] = []
    for place in places(text):
        if place.is_key:
            continue
        given = _leading((place.inside or "") if place.is_bounded else text[place.at :])
        if given is not None and not _has_another(text, place, given[0], _collection):
            return given[0]
        if given is not None or says_something(place):
            raise Wrong("what it gives as its answer is no JSON")
        referred += [fence[1] for fence in itertools.islice(_FENCE.finditer(text, place.at), 1)]
    for candidate in (*reversed(referred), *_fences_and_last_line(text)):
        try:
            return _json(candidate)
        except ValueError:
            continue
    raise Wrong("it has no JSON after ANSWER:")


def _fences_and_last_line(text: str) -> Iterator[str]:
    yield from reversed([fence[1] for fence in _FENCE.finditer(text)][-_CANDIDATES:])
    yield text.strip().rpartition("\n")[2]


def _collection(text: str) -> Any:
    value = parsed(text)
    return value if isinstance(value, list | dict) else None


def _leading(text: str) -> tuple[Any] | None:
    """Return the JSON that a text begins with, if its line ends there."""
    begins = re.match(r"[\s*_$]*(?:```[A-Za-z]*\s*|`)?", text)
    found = _decoded(text, begins.end() if begins else 0)
    if found is None or not re.fullmatch(r"[\s*_`$;]*\.?[\s*_`$]*", text[found[1] :].partition("\n")[0]):
        return None
    following = text[found[1] :].partition("\n")[2].lstrip().partition("\n")[0]
    return None if isinstance(parsed(following), int | float | list | dict) else (found[0],)


def _decoded(text: str, at: int) -> tuple[Any, int] | None:
    """Return the JSON that begins at a position, after spaces, and its end."""
    try:
        space = re.compile(r"\s*").match(text, at)
        return _DECODER.raw_decode(text, space.end() if space else at)
    except (ValueError, RecursionError):
        return None


def _json(text: str) -> Any:
    """Parse JSON. ValueError: it is not JSON, too deep, or has a number that is not finite."""
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError("too deep") from None


def parsed(text: str) -> Any:
    """Parse JSON; None if it is not JSON."""
    try:
        return _json(text)
    except ValueError:
        return None


def _refuse(name: str) -> float:
    raise ValueError(name)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("not finite")
    return number


_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)


def last_array(text: str) -> Any:
    """Return the last JSON array of arrays or objects in a text; None: there is none."""
    nested = (span for span in brackets(text) if _NESTED.match(text, span[0]))
    for start, end in itertools.islice(nested, _CANDIDATES):
        found = parsed(text[start:end])
        if found and all(isinstance(one, list | dict) for one in found):
            return found
    return None


def brackets(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of matching brackets, the last first. Unmatched brackets are ignored."""
    opened: list[int] = []
    spans = []
    for bracket in _BRACKET.finditer(text):
        if bracket[0] == "[":
            opened.append(bracket.start())
        elif opened:
            spans.append((opened.pop(), bracket.end()))
    return reversed(spans)
