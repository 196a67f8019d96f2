# SPDX-License-Identifier: MIT
"""Words for arguments that the binding's own conversions refuse: which, what it was, and what to pass.

The native modules ask only once a call has been refused. What a function takes is read from its signature.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class _Parameter(NamedTuple):
    name: str
    type: str
    is_required: bool
    is_keyword: bool  # given by name alone


def explain(name: str, refusal: str, args: Sequence[Any], keywords: Mapping[str, Any]) -> Exception:
    """The exception to raise for a call of ``name`` that no signature in ``refusal`` fits."""
    is_method = "." in name or "constructor arguments" in refusal
    signatures = [_parameters(line) for line in refusal.splitlines() if line.startswith("    ") and "(" in line]
    if not signatures:
        return TypeError(f"{name}() does not take these arguments")
    parameters = signatures[0]
    if "constructor arguments" in refusal:
        parameters = [_Parameter("self", "object", True, False), *parameters]
    return _by_count(name, parameters, args, keywords, is_method) or _by_type(name, parameters, args, keywords)


def _by_count(
    name: str, parameters: Sequence[_Parameter], args: Sequence[Any], keywords: Mapping[str, Any], is_method: bool
) -> Exception | None:
    known = [each.name for each in parameters]
    given = dict.fromkeys(keywords)
    for keyword in given:
        if keyword not in known:
            takes = ", ".join(each for each in known if each != "self") or "none"
            return TypeError(f"{name}() got an unexpected keyword argument '{keyword}': its arguments are {takes}")
    positional = [each for each in parameters if not each.is_keyword]
    if len(args) > len(positional):
        most = len(positional) - is_method
        return TypeError(f"{name}() takes at most {max(most, 0)} arguments by position, not {len(args) - is_method}")
    for each in positional[: len(args)]:
        if each.name in given:
            return TypeError(f"{name}() was given the argument '{each.name}' twice")
    for each in (*positional[len(args) :], *(each for each in parameters if each.is_keyword)):
        if each.is_required and each.name not in given:
            return TypeError(f"{name}() needs the argument '{each.name}': {_words(each.type)}")
    return None


def _by_type(
    name: str, parameters: Sequence[_Parameter], args: Sequence[Any], keywords: Mapping[str, Any]
) -> Exception:
    positional = [each for each in parameters if not each.is_keyword]
    values = [*zip(positional, args, strict=False)]
    values += [(each, keywords[each.name]) for each in parameters if each.name in keywords]
    for each, value in values:
        refused = _refused(each.type, value)
        what = f"{name}: the value" if _is_unnamed(each.name) else f"{name}(): {_called(each.name)}"
        if refused == "value":
            return ValueError(f"{what} cannot be {_shown(value)}: {_words(each.type)} within its range is needed")
        if refused:
            return TypeError(f"{what} is {_words(each.type)}, not {_kind(value)}")
    taken = [each for each in parameters if each.name not in ("self", "arg0")]
    types = ", ".join(("" if _is_unnamed(each.name) else f"{each.name}: ") + _words(each.type) for each in taken)
    given = ", ".join(_kind(value) for each, value in values if each.name not in ("self", "arg0"))
    return TypeError(f"{name}() takes ({types}), not ({given})")


def _called(name: str) -> str:
    return "the object" if name in ("self", "arg0") else f"'{name}'"


def _is_unnamed(name: str) -> bool:
    """True for the value that a property is set to, which has no name of its own."""
    return name.startswith("arg") and name[3:].isdigit() and name != "arg0"


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__name__


def _shown(value: Any) -> str:
    text = ascii(value) if not isinstance(value, int) or abs(value) < 1 << 256 else "so large an int"
    return text if len(text) <= 60 else text[:57] + "..."


def _refused(kind: str, value: Any) -> str:
    """Says why a value is refused: for its "type" or its "value". Empty where it is not, as far as can be told."""
    if kind in ("object", "typing.Any") or ("None" in kind and value is None):
        return ""
    if "Callable" in kind:
        return "" if callable(value) else "type"
    if "Supports" in kind or kind == "int":
        is_number = hasattr(type(value), "__index__") or ("Float" in kind and hasattr(type(value), "__float__"))
        if not is_number:
            return "type"
        return "value" if isinstance(value, int) and not -(1 << 31) <= value < 1 << 31 else ""
    if kind.startswith("bool"):
        return "" if value is None or _has_truth(value) else "type"
    if kind.startswith("str"):
        if not isinstance(value, (str, bytes)):
            return "type"
        return "value" if isinstance(value, str) and not _is_text(value) else ""
    wanted = [part.strip() for part in kind.split("|")]
    names = [f"{each.__module__}.{each.__qualname__}" for each in type(value).__mro__]
    is_class = all("[" not in part for part in wanted)
    return "type" if is_class and not any(part in names for part in wanted) else ""


def _has_truth(value: Any) -> bool:
    """True where a value says itself that it is true or false. An array of several elements refuses to."""
    try:
        return hasattr(type(value), "__bool__") and bool(value) is not None
    except Exception:
        return False


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _words(kind: str) -> str:
    or_none = " or None" if "None" in kind else ""
    if "Callable" in kind:
        return "a function" + or_none
    if "Float" in kind or kind.startswith("float"):
        return "a number" + or_none
    if "Supports" in kind or kind.startswith("int"):
        return "an int" + or_none
    if kind.startswith("bool"):
        return "True or False" + or_none
    if kind.startswith("str"):
        return "text" + or_none
    names = [part.strip().rpartition(".")[2] for part in kind.split("|") if part.strip() != "None"]
    return " or ".join(f"{'an' if each[:1] in 'AEIOU' else 'a'} {each}" for each in names) + or_none


def _parameters(line: str) -> list[_Parameter]:
    """Reads the parameters of ``1. (self: Class, name: type = default, *, other: type) -> answer``."""
    found, is_keyword = [], False
    for part in _split(line[line.index("(") + 1 :]):
        if part in ("*", "/"):
            is_keyword = is_keyword or part == "*"
            continue
        name, _, rest = part.partition(":")
        kind, equals, _ = rest.partition(" = ")
        if not name.startswith("*"):
            found.append(_Parameter(name.strip(), kind.strip(), not equals, is_keyword))
    return found


def _split(text: str) -> list[str]:
    """The parts between commas, up to the bracket that ends the parameters."""
    parts, depth, begin, quote = [], 0, 0, ""
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}" and depth == 0:
            parts.append(text[begin:at])
            break
        elif letter in ")]}":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[begin:at])
            begin = at + 1
    return [part.strip() for part in parts if part.strip()]
