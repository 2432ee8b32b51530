"""Decoding of JSON into the models."""

from __future__ import annotations

import dataclasses
import functools
import re
import types
import typing
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, TypeVar

T = TypeVar("T")

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(?:Z|\+00:00)")


def decode(kind: type[T], value: Any) -> T:
    """Return a JSON value as an object of a dataclass.

    Raises:
        ValueError: The value has another type than the field that it is for; the message names the member.
    """
    result = _value(kind, value, "the response")
    assert isinstance(result, kind)  # noqa: S101 - for the type checker: _value has checked it
    return result


def names(kind: type) -> dict[str, str]:
    """Return the JSON member of each field of a dataclass."""
    return {f.name: f.metadata.get("json") or re.sub(r"_(\w)", lambda m: m[1].upper(), f.name) for f in dataclasses.fields(kind)}


@functools.cache
def _fields(kind: type) -> list[tuple[str, str, Any]]:
    types_of = typing.get_type_hints(kind)
    return [(name, member, types_of[name]) for name, member in names(kind).items()]


def _value(kind: Any, value: Any, path: str) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is types.UnionType:  # X | None
        return _value(next(a for a in arguments if a is not types.NoneType), value, path)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and isinstance(value, dict):
        members = {name: _value(of, value[m], m) for name, m, of in _fields(kind) if value.get(m) is not None}
        return kind(**members)
    if origin is tuple and isinstance(value, list):
        return tuple(_value(arguments[0], v, path) for v in value)
    if origin is Mapping and isinstance(value, dict):
        return {k: _value(arguments[1], v, path) for k, v in value.items()}
    return _scalar(kind, value, path)


def _scalar(kind: Any, value: Any, path: str) -> Any:
    if kind is datetime and isinstance(value, str):
        return _time(value, path)
    if kind is int and isinstance(value, str) and re.fullmatch(r"-?\d{1,20}", value):
        return int(value)  # an int64 of protobuf
    if kind is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 1000:
        return float(value)
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind not in (str, int, float, bool) or type(value) is not kind:
        raise ValueError(f"{path} is {type(value).__name__}, which is not expected")
    return value


def _time(text: str, path: str) -> datetime:
    m = _TIME.fullmatch(text)
    if m is None:
        raise ValueError(f"{path} is not a time: {text[:40]!r}")
    try:
        time = datetime.fromisoformat(m[1])
    except ValueError as e:
        raise ValueError(f"{path} is not a time: {e}") from None
    return time.replace(microsecond=int((m[2] or "0")[:6].ljust(6, "0")), tzinfo=timezone.utc)
