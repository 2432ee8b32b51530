"""The models have exactly the members of the OpenAPI document."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from slipway import _models as m
from slipway._decode import decode, names
from slipway._events import EventParser
from slipway._ignore import Ignored

DOCUMENT = Path(__file__).parents[3] / "proto" / "gen" / "openapi" / "container.json"

SCHEMAS: dict[str, type] = {
    "LockedPackage": m.LockedPackage, "PackageChange": m.PackageChange, "PlatformLock": m.PlatformLock, "Reason": m.Reason,
    "MissingPackage": m.MissingPackage, "Conflict": m.Conflict, "Suggestion": m.Suggestion, "LockPackagesResult": m.Explanation,
    "FoundPackage": m.FoundPackage, "SearchPackagesResult": m.SearchResult, "GetContainerStatusResult": m.ContainerStatus,
    "Build": m.Build, "CompressionResult": m.Compression, "CondaOptionsResult": m.CondaOptions, "Platform": m.Platform,
    "Descriptor": m.Descriptor, "RuntimeConfig": m.RuntimeConfig, "HistoryEntry": m.HistoryEntry, "RootFS": m.RootFS,
    "ImageConfig": m.ImageConfig, "ImageManifest": m.ImageManifest, "ContainerInspection": m.ContainerInspection,
    "IndexInspection": m.IndexInspection, "InspectImageResult": m.Inspection, "SubmitContainerResult": m.Submitted,
    "EnvironmentIndex": m.EnvironmentIndex, "EnvironmentPackage": m.EnvironmentPackage, "GetEnvironmentResult": m.Environment,
}  # fmt: skip


@pytest.mark.parametrize("schema", SCHEMAS)
def test_members(schema: str) -> None:
    document = json.loads(DOCUMENT.read_text())["components"]["schemas"][schema]
    assert set(names(SCHEMAS[schema]).values()) == set(document["properties"])


def example(schemas: dict[str, Any], of: dict[str, Any], depth: int = 0) -> Any:
    """Return a value of a schema with all members."""
    if "$ref" in of:
        return example(schemas, schemas[of["$ref"].rsplit("/", 1)[1]], depth + 1)
    if "allOf" in of:
        return example(schemas, of["allOf"][0], depth)
    if of["type"] == "array":
        return [] if depth > 6 else [example(schemas, of["items"], depth)]
    if of["type"] == "object" and "properties" in of:
        return {k: example(schemas, v, depth) for k, v in of["properties"].items()}
    if isinstance(of.get("additionalProperties"), dict):
        return {"k": example(schemas, of["additionalProperties"], depth)}
    values = {"object": {"k": "v"}, "string": "text", "integer": 7, "number": 7, "boolean": True}
    return "2026-01-02T03:04:05.6Z" if of.get("format") == "date-time" else values[of["type"]]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_types(schema: str) -> None:
    schemas = json.loads(DOCUMENT.read_text())["components"]["schemas"]
    got: Any = decode(SCHEMAS[schema], example(schemas, schemas[schema]))
    assert all(getattr(got, name) not in (None, "", ()) for name in names(SCHEMAS[schema]))


def test_random_input() -> None:
    """No input makes a parser raise anything but ValueError, or loses the order of events."""
    chance = random.Random(1)  # noqa: S311
    atoms: list[Any] = [
        None,
        True,
        1,
        1.5,
        1e400,
        "x",
        "12",
        "2026-13-41T99:99:99Z",
        [],
        {},
        [1],
        {"k": "v"},
        {"k": 1},
        [{}],
        [[]],
    ]
    members = sorted({member for kind in SCHEMAS.values() for member in names(kind).values()})
    for _ in range(3000):
        value = {name: chance.choice(atoms) for name in chance.sample(members, 12)}
        for kind in SCHEMAS.values():
            try:
                decode(kind, value)
            except ValueError as e:
                assert "expected" in str(e) or "time" in str(e)  # noqa: PT017
        text = "".join(chance.choice("ab*?[]^\\/!#.-&~|{}()+$ \n") for _ in range(chance.randrange(12)))
        try:
            Ignored(text).has("a/b")
        except ValueError as e:
            assert "not a valid pattern" in str(e)  # noqa: PT017
        stream = b"".join(chance.choice([b"data", b"id", b"retry", b":", b" ", b"\n", b"\n", b"\r\n", b"9", b"\xff"]) for _ in range(40))
        at = chance.randrange(41)
        parser = EventParser()
        assert [*parser.feed(stream[:at]), *parser.feed(stream[at:])] == list(EventParser().feed(stream))


def test_events_are_bounded() -> None:
    for stream in (b"x" * 17_000_000, (b"data: " + b"x" * 1_000_000 + b"\n") * 17):
        with pytest.raises(ValueError, match="longer than"):
            list(EventParser().feed(stream))
