"""What a call does, without I/O: the synchronous and the asynchronous client perform the same steps.

A flow is a generator. It yields what is to be done, is sent the result, and returns the result of the call. Errors of a step
are raised at its ``yield``.
"""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast
from urllib.parse import quote, urlencode

from slipway._decode import decode
from slipway._errors import SlipwayError, UnreachableError, UnsolvableError
from slipway._models import Explanation
from slipway._settings import Settings

T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    """A request to the server.

    ``repeatable`` states that the request may be repeated after 503, when the server may already have handled it.
    ``timeout`` is in seconds; None for that of the settings.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    accept: str = "application/json"
    last_event_id: str = ""
    repeatable: bool = True
    timeout: float | None = None

    def target(self) -> str:
        """Return the path with its query."""
        return self.path + ("?" + urlencode(self.query) if self.query else "")


@dataclass(frozen=True)
class Response:
    """A response with its complete body; ``headers`` have lower-case names."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Send:
    """Send a request. The result is its Response."""

    request: Request


@dataclass(frozen=True)
class Open:
    """Send a request, and keep its response open if its status is 200. The result is the Response, then without body."""

    request: Request


@dataclass(frozen=True)
class Read:
    """Read from the open response. The result is the next bytes, or None at its end."""


@dataclass(frozen=True)
class Sleep:
    """Wait for a time in seconds. The result is None."""

    seconds: float


@dataclass(frozen=True)
class Work:
    """Call a function that reads files. The result is the function's."""

    function: Callable[[], Any]


Step = Send | Open | Read | Sleep | Work
Flow = Generator[Step, Any, T]


def path(*segments: str) -> str:
    """Return a path of segments, which may have any characters."""
    for segment in segments:
        if segment in ("", ".", ".."):
            raise ValueError(f"{segment!r} is not an id or a name")
    return "".join("/" + quote(segment, safe="") for segment in segments)


def work(function: Callable[[], T]) -> Flow[T]:
    """Call a function that reads files."""
    return cast(T, (yield Work(function)))


class Deadline:
    """The end of the time that a wait may take; None for none."""

    def __init__(self, timeout: float | None) -> None:
        self._end = None if timeout is None else time.monotonic() + timeout

    def remaining(self) -> float | None:
        """Return the remaining seconds; 0 when there are none, None for no end."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def within(self, seconds: float | None) -> float | None:
        """Return a time in seconds, or the remaining time if that is shorter."""
        remaining = self.remaining()
        if remaining is None or seconds is None:
            return seconds if remaining is None else remaining
        return min(seconds, remaining)

    def of_request(self, seconds: float | None) -> float | None:
        """Return the timeout of a request: a time in seconds, or the remaining time, but at least a second."""
        within = self.within(seconds)
        return None if within is None else max(1.0, within)


def send(settings: Settings, request: Request) -> Flow[Response]:
    """Send a request until the response is not a request to wait, and return it if its status is 2xx.

    Repeats after 429, and after 503 if the request is repeatable, only if the response has Retry-After, and in total only
    for ``settings.retry_for``. Any other response is raised as an error.
    """
    left = settings.retry_for
    while True:
        response = cast(Response, (yield Send(request)))
        wait = retry_after(response)
        is_early = response.status == 429 or (response.status == 503 and request.repeatable)
        if not is_early or wait is None or wait > left:
            if response.status // 100 == 2:
                return response
            raise refusal(settings, response)
        left -= max(wait, 1e-3 * settings.retry_for)  # so that a wait of 0 also ends
        yield Sleep(wait)


def fetch(settings: Settings, request: Request, kind: type[T]) -> Flow[T]:
    """Send a request and decode its response."""
    response = yield from send(settings, request)
    return decoded(settings, response, kind)


def decoded(settings: Settings, response: Response, kind: type[T]) -> T:
    """Return the body of a response as an object."""
    try:
        return decode(kind, json.loads(response.body))
    except (ValueError, RecursionError) as e:
        raise strange(settings, response, str(e)) from None


def retry_after(response: Response) -> float | None:
    """Return the seconds of the header Retry-After, which may be a date; None if it is absent or invalid."""
    value = response.headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit() and len(value) < 9:
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def refusal(settings: Settings, response: Response) -> SlipwayError:
    """Return the error of a response that is not 2xx."""
    try:
        body = json.loads(response.body)
    except (ValueError, RecursionError):
        body = None
    message = body.get("message") if isinstance(body, dict) else None
    if not isinstance(message, str) or not message:
        return strange(settings, response, response.body[:200].decode(errors="replace"))
    code, details = body.get("code"), body.get("details")
    attributes = _attributes(response)
    attributes["code"] = code if isinstance(code, str) else ""
    attributes["details"] = details if isinstance(details, dict) else {}
    if code == "conda.conflict":
        if not details:  # the response to a lock has them beside the message
            attributes["details"] = {name: body[name] for name in ("conflict", "suggestions") if name in body}
        try:
            explanation = decode(Explanation, attributes["details"])
        except ValueError:
            explanation = Explanation()
        if explanation.conflict is not None:
            return UnsolvableError(message, explanation.conflict, explanation.suggestions, **attributes)
    return SlipwayError(message + _remedy(settings, response), **attributes)


def _attributes(response: Response) -> dict[str, Any]:
    return {
        "status": response.status,
        "request_id": response.headers.get("x-request-id", "")[:200],
        "retry_after": retry_after(response),
    }


def _remedy(settings: Settings, response: Response) -> str:
    if response.status == 401 or (response.status == 403 and not settings.token):
        return " (sign in with `slipway login`, or give an access token with token= or SLIPWAY_TOKEN)"
    return ""


def strange(settings: Settings, response: Response, why: str) -> SlipwayError:
    """Return the error of a response that no Slipway server sends."""
    location = response.headers.get("location", "")
    if response.status // 100 == 3 and location:
        why = f"it points to {location[:200]}; redirects are not followed"
    return SlipwayError(
        f"{settings.server} responded with status {response.status}, and not as a Slipway server does; check the server's URL: {why}",
        **_attributes(response),
    )


def lost(error: SlipwayError) -> bool:
    """Report whether an error is temporary, so that a wait can continue: a lost connection, or an overloaded server."""
    return isinstance(error, UnreachableError) or error.status in (429, 502, 503, 504)
