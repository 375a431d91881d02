"""Options of environments: texts from a command line to values, and values against the types that they need.

Invariant: an option that an environment does not have, or a value that is not of its type, is refused before anything
is made; nothing is dropped in silence.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, TypeAdapter, ValidationError

from .errors import ConfigError, UnknownNameError


def _split(value: object) -> object:
    return tuple(word.strip() for word in value.split(",")) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""The type of an option that is a list of names: ``"heat,cool"``, or any sequence of texts."""


def literal(text: str) -> Any:
    """The value that a text on the command line stands for: as in TOML, and a bare word is text.

    Examples: ``3``, ``0.5``, ``true``, ``["a", "b"]``, ``word``. There are no dates: those stay texts.
    """
    try:
        value = tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        return text
    return value if isinstance(value, bool | int | float | str | list | dict) else text


def read_pairs(pairs: Sequence[str], flag: str) -> dict[str, str]:
    """Reads ``key=value`` pairs of a command line.

    Args:
        pairs: the pairs.
        flag: the option that they were given with, for messages.

    Raises:
        ConfigError: for a pair without ``=`` or a key that is given twice.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise ConfigError(f"{flag} {pair!r} is not a setting; write {flag} key=value")
        if key in found:
            raise ConfigError(f"{flag} {key} is given twice; keep one")
        found[key] = value
    return found


def check_options(owner: str, given: Mapping[str, Any], types: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the types that they need; texts that spell a value of the type are converted.

    Args:
        owner: what has the options, for messages.
        given: the options.
        types: all options that there are, with their types.

    Raises:
        UnknownNameError: for an option that there is not.
        ConfigError: for a value of another type.
    """
    checked: dict[str, Any] = {}
    for key, value in given.items():
        if key not in types:
            raise UnknownNameError(f"option of {owner}", key, types)
        try:
            checked[key] = TypeAdapter(types[key]).validate_python(value)
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise ConfigError(f"option {key} of {owner} is {value!r}: {reason}; give another value") from error
    return checked


def refuse_unread(options: BaseModel, name: str, read: bool, when: str) -> None:
    """Refuses a value that nothing would read; the default may stand, as it changes nothing.

    Args:
        options: the options.
        name: one of them.
        read: whether it is read beside the others.
        when: what the others must be for it to be read, for the message.

    Raises:
        ValueError: for pydantic, which says where.
    """
    value, default = vars(options)[name], type(options).model_fields[name].default
    if not read and value != default:
        raise ValueError(f"{name} = {value} is read with {when} alone; leave {name} out (default: {default})")
