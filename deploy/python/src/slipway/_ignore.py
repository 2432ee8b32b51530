""".dockerignore files, as docs.docker.com describes them in "Build context"."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class _Rule:
    pattern: re.Pattern[str]
    keep: bool  # the line begins with "!"


class Ignored:
    """The files that a build context leaves out. The last matching line of the file decides."""

    def __init__(self, text: str = "") -> None:
        """Parse the text of a file. Raises ValueError, with the line, for an invalid pattern."""
        self._rules = list(_rules(text))

    def has(self, name: str) -> bool:
        """Report whether a path below the context is left out, by itself or with a parent directory."""
        out = False
        for rule in self._rules:
            if rule.keep == out and any(rule.pattern.fullmatch(p) for p in _with_parents(name)):
                out = not rule.keep
        return out

    @property
    def has_exceptions(self) -> bool:
        """Whether a directory that is left out may contain files that are not."""
        return any(rule.keep for rule in self._rules)


def read_ignored(dockerfile: Path | None, context: Path) -> Ignored:
    """Return the ignore file of a Dockerfile, or else the one in the context; an empty one if there is neither."""
    candidates = [context / ".dockerignore"]
    if dockerfile is not None:
        candidates.insert(0, dockerfile.with_name(dockerfile.name + ".dockerignore"))
    for path in candidates:
        try:
            return Ignored(path.read_text(encoding="utf-8-sig"))
        except FileNotFoundError:
            continue
        except ValueError as e:
            raise ValueError(f"reading {path}: {e}") from None
    return Ignored()


def _with_parents(name: str) -> Iterator[str]:
    while name not in ("", ".", "/"):
        yield name
        name = posixpath.dirname(name)


def _rules(text: str) -> Iterator[_Rule]:
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        if line.startswith("#"):
            continue
        line = line.strip()
        keep = line.startswith("!")
        line = line.removeprefix("!").strip()
        if not line:
            continue
        line = posixpath.normpath(line).lstrip("/")
        if line in ("", "."):
            continue
        try:
            yield _Rule(re.compile(_pattern(line), re.DOTALL), keep)
        except re.error as e:
            raise ValueError(f"line {number} is not a valid pattern: {e}") from None


def _set(members: str) -> str:
    """Return the characters and ranges of a set, each escaped: "-" between two characters makes a range."""
    out, i = "", 0
    while i < len(members):
        if members[i + 1 : i + 2] == "-" and i + 2 < len(members):
            out += re.escape(members[i]) + "-" + re.escape(members[i + 2])
            i += 3
        else:
            out += re.escape(members[i])
            i += 1
    return out


def _pattern(line: str) -> str:
    """Return a pattern as a regular expression: "**" matches any number of directories."""
    out, i = "", 0
    while i < len(line):
        c = line[i]
        if line.startswith("**", i):
            i += 2
            if line.startswith("/", i):
                i += 1
            out += ".*" if i == len(line) else "(?:.*/)?"
            continue
        if c == "*":
            out += "[^/]*"
        elif c == "?":
            out += "[^/]"
        elif c == "[" and (end := line.find("]", i + 1)) > 0:
            members = line[i + 1 : end]
            negated = members.startswith("^")
            out += "[" + "^" * negated + _set(members[negated:]) + "]"
            i = end
        elif c == "\\" and i + 1 < len(line):
            i += 1
            out += re.escape(line[i])
        else:
            out += re.escape(c)
        i += 1
    return out
