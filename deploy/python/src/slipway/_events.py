"""Server-sent events, as the HTML standard defines them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

# The maximum length of an event, in bytes.
MAX_EVENT = 16_000_000


@dataclass
class EventParser:
    """A parser of an event stream in chunks.

    Attributes:
        last_id: The id of the last complete event, for reconnecting.
        retry: The server's reconnection time in seconds; 0 if unknown.
    """

    last_id: str = ""
    retry: float = 0
    _rest: bytes = b""
    _kind: str = ""
    _id: str | None = None
    _data: list[str] = field(default_factory=list)
    _size: int = 0

    def feed(self, chunk: bytes) -> Iterator[tuple[str, str]]:
        """Yield the events, type and data, that a chunk completes. Raises ValueError for an event that is too long."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._grow(len(line))
            yield from self._line(line.removesuffix(b"\r").decode(errors="replace"))
        if len(self._rest) > MAX_EVENT:
            raise ValueError(f"an event is longer than {MAX_EVENT} bytes")

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > MAX_EVENT:
            raise ValueError(f"an event is longer than {MAX_EVENT} bytes")

    def _line(self, line: str) -> Iterator[tuple[str, str]]:
        if not line:
            if self._id is not None:
                self.last_id = self._id
            event = (self._kind, "\n".join(self._data)) if self._data else None
            self._kind, self._id, self._data, self._size = "", None, [], 0
            if event:
                yield event
            return
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._kind = value
        elif name == "data":
            self._data.append(value)
        elif name == "id":
            self._id = value
        elif name == "retry" and value.isascii() and value.isdigit() and len(value) < 7:
            self.retry = int(value) / 1000
