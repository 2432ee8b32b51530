"""Client of the Slipway container image service.

    >>> import slipway
    >>> slipway.container(["samtools=1.20"]).wait().name
    'localhost:9090/wt/…/samtools-1.20--…'

The functions of this module use a Client with the default settings: SLIPWAY_SERVER and SLIPWAY_TOKEN, or the login that
``slipway login`` has stored. AsyncClient has the same calls for asyncio.
"""

from __future__ import annotations

import atexit
import functools
import os
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from slipway._client import AsyncClient, AsyncContainer, Client, Container, signed
from slipway._errors import BuildError, SlipwayError, UnreachableError, UnsolvableError, WaitTimeoutError
from slipway._layer import Layer, LeftOutWarning, SecretWarning
from slipway._models import (
    Build,
    Conflict,
    ContainerInspection,
    ContainerStatus,
    Descriptor,
    Environment,
    Event,
    Explanation,
    FoundPackage,
    Inspection,
    LockedPackage,
    MissingPackage,
    PlatformLock,
    Reason,
    SearchResult,
    Suggestion,
)
from slipway._settings import resolve, version

__version__ = version()
__all__ = [
    "AsyncClient",
    "AsyncContainer",
    "Build",
    "BuildError",
    "Client",
    "Conflict",
    "Container",
    "ContainerInspection",
    "ContainerStatus",
    "Descriptor",
    "Environment",
    "Event",
    "Explanation",
    "FoundPackage",
    "Inspection",
    "Layer",
    "LeftOutWarning",
    "LockedPackage",
    "MissingPackage",
    "PlatformLock",
    "Reason",
    "SearchResult",
    "SecretWarning",
    "SlipwayError",
    "Suggestion",
    "UnreachableError",
    "UnsolvableError",
    "WaitTimeoutError",
    "container",
    "explain",
    "inspect",
    "lock",
    "search",
]

_P = ParamSpec("_P")
_T = TypeVar("_T")


@functools.lru_cache(maxsize=8)
def _client_of(server: str, token: str, workspace: int | str | None) -> Client:
    client = Client(server, token, workspace=workspace)
    atexit.register(client.close)
    return client


def _default(method: Callable[Concatenate[Client, _P], _T]) -> Callable[_P, _T]:
    """Return a method as a function that uses the default client."""

    def function(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        s = resolve(None, None, None, os.environ)
        return method(_client_of(s.server, s.token, s.workspace), *args, **kwargs)

    return signed(function, method, hidden=1, visible=())


container = _default(Client.container)
explain = _default(Client.explain)
inspect = _default(Client.inspect)
lock = _default(Client.lock)
search = _default(Client.search)
