"""The synchronous and the asynchronous client: both perform the flows of _calls with httpx."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import time
from collections.abc import Callable, Coroutine
from datetime import datetime
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

import httpx

from slipway import _calls
from slipway._errors import SlipwayError, UnreachableError
from slipway._flow import Flow, Open, Read, Request, Response, Send, Sleep, Step, Work
from slipway._models import Event, Submitted
from slipway._settings import Settings, resolve

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound="_Base")
Returned = TypeVar("Returned")


class _Base:
    """The settings of a client, and how a request of a flow becomes one of httpx."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def __repr__(self) -> str:
        return f"{type(self).__name__}(server={self.settings.server!r})"

    def _options(self) -> dict[str, Any]:
        """Return the arguments of the httpx client."""
        headers = {"User-Agent": self.settings.user_agent, "Accept-Encoding": "identity"}
        if self.settings.token:
            headers["Authorization"] = f"Bearer {self.settings.token}"
        # A redirect is an error, so that the access token is never sent to another host.
        options: dict[str, Any] = {"headers": headers, "follow_redirects": False}
        host = httpx.URL(self.settings.server).host
        if host in ("localhost", "::1") or host.startswith("127."):
            options["mounts"] = {f"all://{'[::1]' if host == '::1' else host}": None}  # not through a proxy
        return options

    def _arguments(self, request: Request) -> dict[str, Any]:
        """Return the arguments of a request of httpx."""
        timeout = self.settings.timeout if request.timeout is None else request.timeout
        headers = {"Accept": request.accept}
        if request.last_event_id:
            headers["Last-Event-ID"] = request.last_event_id
        arguments: dict[str, Any] = {
            "method": request.method,
            "url": self.settings.server + request.target(),
            "headers": headers,
            "timeout": None if timeout is None else max(timeout, 1e-3),
        }
        if request.body is not None:
            arguments["json"] = request.body
        return arguments

    def _failure(self, error: httpx.HTTPError, request: Request | None) -> UnreachableError:
        """Return the error of a request without a response. The path may have a token and is not shown."""
        server = self.settings.server
        if isinstance(error, httpx.TimeoutException):
            seconds = self.settings.timeout if request is None or request.timeout is None else request.timeout
            return UnreachableError(f"{server} did not respond within {seconds} seconds; allow more with timeout=")
        if isinstance(error, httpx.ConnectError):
            return UnreachableError(
                f"no server answers at {server}; start one with `slipwayd serve`, or set server= or SLIPWAY_SERVER: {error}"
            )
        return UnreachableError(f"the connection to {server} was lost: {error}")


class _Body:
    """Collects the body of a response within the bounds of the settings."""

    def __init__(self, settings: Settings, request: Request, response: httpx.Response, begin: float) -> None:
        self._settings, self._response, self._chunks, self._size = settings, response, [b""], 0
        timeout = settings.timeout if request.timeout is None else request.timeout
        self._end = None if timeout is None else begin + timeout
        if response.headers.get("content-encoding", "identity") != "identity":
            raise SlipwayError(
                f"{settings.server} compressed a response, which was not requested; check the server's URL, and proxies",
                status=response.status_code,
            )

    def add(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._size += len(chunk)
        if self._size > self._settings.max_response:
            raise SlipwayError(
                f"The response is larger than {self._settings.max_response:,} bytes; allow more with max_response=",
                status=self._response.status_code,
            )
        if self._end is not None and time.monotonic() > self._end:
            raise httpx.ReadTimeout("the response is too slow")

    def response(self) -> Response:
        headers = {k.lower(): v for k, v in self._response.headers.items()}
        return Response(self._response.status_code, headers, b"".join(self._chunks))


class _Container(Generic[C]):
    """A requested container."""

    def __init__(self, client: C, submitted: Submitted) -> None:
        self._client, self._submitted = client, submitted

    def __repr__(self) -> str:
        """Return a text without the name, which is a secret."""
        s = self._submitted
        return f"{type(self).__name__}(request_id={s.request_id!r}, build_id={s.build_id!r})"

    @property
    def name(self) -> str:
        """The image name to pull. It contains a token, and any client that has it can pull the image."""
        return self._submitted.target_image

    @property
    def request_id(self) -> str:
        """The id of the request, which is no secret: store it to get a new name later."""
        return self._submitted.request_id

    @property
    def build_id(self) -> str:
        """The id of the build; empty if nothing has to be built."""
        return self._submitted.build_id

    @property
    def image(self) -> str:
        """The image that was requested or built, in its registry."""
        return self._submitted.container_image

    @property
    def expires(self) -> datetime | None:
        """When the name expires; None for a frozen image, whose name is permanent."""
        return self._submitted.expiration

    @property
    def cached(self) -> bool | None:
        """Whether the image, or its build, existed before the request; None if nothing has to be built."""
        return self._submitted.cached

    @property
    def ready(self) -> bool:
        """Whether the image existed when the server responded. ``wait`` waits for it, and ``status`` has the current state."""
        return bool(self._submitted.succeeded)

    @property
    def notice(self) -> str:
        """Options of the request that have no effect, as text; empty if there are none."""
        return self._submitted.message


def signed(method: Returned, flow: Callable[..., Any], *, hidden: int, visible: tuple[str, ...] = ("self",)) -> Returned:
    """Give a method the name, docstring and signature of its flow, whose first parameters the client sets."""
    functools.update_wrapper(method, flow)  # type: ignore[arg-type]
    first = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in visible]
    signature = inspect.signature(flow)
    parameters = [*first, *list(signature.parameters.values())[hidden:]]
    method.__signature__ = signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)  # type: ignore[attr-defined]
    return method


def _sync(flow: Callable[Concatenate[Settings, P], Flow[T]]) -> Callable[Concatenate[Client, P], T]:
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(flow(self.settings, *args, **kwargs))

    return signed(method, flow, hidden=1)


def _sync_container(
    flow: Callable[Concatenate[Settings, P], Flow[Submitted]],
) -> Callable[Concatenate[Client, P], Container]:
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> Container:
        return Container(self, self._run(flow(self.settings, *args, **kwargs)))

    return signed(method, flow, hidden=1)


def _sync_of(
    flow: Callable[Concatenate[Settings, Submitted, P], Flow[T]],
) -> Callable[Concatenate[Container, P], T]:
    def method(self: Container, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._client._run(flow(self._client.settings, self._submitted, *args, **kwargs))

    return signed(method, flow, hidden=2)


def _async(
    flow: Callable[Concatenate[Settings, P], Flow[T]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(flow(self.settings, *args, **kwargs))

    return signed(method, flow, hidden=1)


def _async_container(
    flow: Callable[Concatenate[Settings, P], Flow[Submitted]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, AsyncContainer]]:
    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> AsyncContainer:
        return AsyncContainer(self, await self._run(flow(self.settings, *args, **kwargs)))

    return signed(method, flow, hidden=1)


def _async_of(
    flow: Callable[Concatenate[Settings, Submitted, P], Flow[T]],
) -> Callable[Concatenate[AsyncContainer, P], Coroutine[Any, Any, T]]:
    async def method(self: AsyncContainer, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._client._run(flow(self._client.settings, self._submitted, *args, **kwargs))

    return signed(method, flow, hidden=2)


class Container(_Container["Client"]):
    """A requested container, whose image may still be built."""

    def wait(self, timeout: float | None = None, on_event: Callable[[Event], None] | None = None) -> Container:
        """Wait until the image exists, and return the container. An interrupted wait leaves the build running.

        Args:
            timeout: The most seconds to wait; None for as long as the build takes.
            on_event: Called with each phase of the build and each line of its log.

        Raises:
            BuildError: The build failed.
            WaitTimeoutError: The timeout was reached.
            UnreachableError: The server could not be reached for two minutes.

        Example:
            >>> container.wait(timeout=600, on_event=lambda e: print(e.text))
        """
        self._client._run(_calls.wait(self._client.settings, self._submitted, timeout, on_event))
        return self

    def new_name(self) -> Container:
        """Return a container with a new name for the same image, which is valid for longer. Nothing is built."""
        return Container(self._client, self._client._run(_calls.container_new_name(self._client.settings, self._submitted)))

    status = _sync_of(_calls.container_status)
    build_record = _sync_of(_calls.container_build_record)
    log = _sync_of(_calls.container_log)
    lock = _sync_of(_calls.container_lock)
    revoke = _sync_of(_calls.container_revoke)


class AsyncContainer(_Container["AsyncClient"]):
    """A requested container, whose image may still be built, of an AsyncClient."""

    async def wait(self, timeout: float | None = None, on_event: Callable[[Event], None] | None = None) -> AsyncContainer:
        """Wait until the image exists, like Container.wait. A cancelled wait leaves the build running."""
        await self._client._run(_calls.wait(self._client.settings, self._submitted, timeout, on_event))
        return self

    async def new_name(self) -> AsyncContainer:
        """Return a container with a new name for the same image, like Container.new_name."""
        client = self._client
        return AsyncContainer(client, await client._run(_calls.container_new_name(client.settings, self._submitted)))

    status = _async_of(_calls.container_status)
    build_record = _async_of(_calls.container_build_record)
    log = _async_of(_calls.container_log)
    lock = _async_of(_calls.container_lock)
    revoke = _async_of(_calls.container_revoke)


class Client(_Base):
    """A client of a Slipway server. It may be used by several threads.

    Args:
        server: The server's URL. Default: SLIPWAY_SERVER, else the server of the last ``slipway login``, else
            http://localhost:9090.
        token: The access token; ``""`` for an anonymous caller. Default: SLIPWAY_TOKEN, else the stored login of the
            server.
        workspace: The workspace whose credentials are used: an id or ``"ORGANISATION/NAME"``. Default:
            SLIPWAY_WORKSPACE, else the personal one.
        timeout: The most seconds that one call may take; None for no bound.
        retry_for: The most seconds that one call waits in total when the server responds with Retry-After; 0 for never.
        max_response: The largest response that is accepted, in bytes.
        transport: A transport of httpx, such as one with its own certificates or proxy.

    Example:
        >>> with slipway.Client("https://slipway.example.org") as client:
        ...     print(client.container(["samtools=1.20"]).wait().name)
    """

    def __init__(
        self,
        server: str | None = None,
        token: str | None = None,
        *,
        workspace: int | str | None = None,
        timeout: float | None = 60,
        retry_for: float = 60,
        max_response: int = 40_000_000,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Create a client. No call is made."""
        super().__init__(resolve(server, token, workspace, os.environ, timeout, retry_for, max_response))
        self._http = httpx.Client(transport=transport, **self._options())

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Client:
        """Return the client."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the connections."""
        self.close()

    def _run(self, flow: Flow[T]) -> T:
        """Perform a flow."""
        stream = _Stream(self)
        try:
            step = next(flow)
            while True:
                try:
                    result = stream.perform(step)
                except SlipwayError as e:
                    step = flow.throw(e)
                else:
                    step = flow.send(result)
        except StopIteration as end:
            returned: T = end.value
            return returned
        finally:
            flow.close()
            stream.close()

    container = _sync_container(_calls.container)
    new_name = _sync_container(_calls.new_name)
    lock = _sync(_calls.lock)
    explain = _sync(_calls.explain)
    search = _sync(_calls.search)
    inspect = _sync(_calls.inspect)
    status = _sync(_calls.status)
    build_record = _sync(_calls.build_record)
    build_log = _sync(_calls.build_log)
    environment_of = _sync(_calls.environment_of)
    build_lock = _sync(_calls.build_lock)
    revoke = _sync(_calls.revoke)


class _Stream:
    """Performs the steps of one flow, which has at most one open response."""

    def __init__(self, client: Client) -> None:
        self._client, self._open = client, None

    _open: httpx.Response | None

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def perform(self, step: Step) -> object:
        if isinstance(step, Sleep):
            time.sleep(step.seconds)
            return None
        if isinstance(step, Work):
            return step.function()
        try:
            if isinstance(step, Read):
                return next(self._chunks, None)
            return self._send(step)
        except httpx.HTTPError as e:
            raise self._client._failure(e, None if isinstance(step, Read) else step.request) from e

    def _send(self, step: Send | Open) -> Response:
        self.close()
        http, begin = self._client._http, time.monotonic()
        self._open = http.send(http.build_request(**self._client._arguments(step.request)), stream=True)
        body = _Body(self._client.settings, step.request, self._open, begin)
        self._chunks = self._open.iter_raw()
        if isinstance(step, Send) or self._open.status_code != 200:
            for chunk in self._chunks:
                body.add(chunk)
            self.close()
        return body.response()


class AsyncClient(_Base):
    """A client of a Slipway server for asyncio. It has the parameters and the methods of Client.

    Example:
        >>> async with slipway.AsyncClient() as client:
        ...     container = await client.container(["samtools=1.20"])
        ...     await container.wait()
    """

    def __init__(
        self,
        server: str | None = None,
        token: str | None = None,
        *,
        workspace: int | str | None = None,
        timeout: float | None = 60,
        retry_for: float = 60,
        max_response: int = 40_000_000,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Create a client. No call is made."""
        super().__init__(resolve(server, token, workspace, os.environ, timeout, retry_for, max_response))
        self._http = httpx.AsyncClient(transport=transport, **self._options())

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        """Return the client."""
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the connections."""
        await self.aclose()

    async def _run(self, flow: Flow[T]) -> T:
        """Perform a flow."""
        stream = _AsyncStream(self)
        try:
            step = next(flow)
            while True:
                try:
                    result = await stream.perform(step)
                except SlipwayError as e:
                    step = flow.throw(e)
                else:
                    step = flow.send(result)
        except StopIteration as end:
            returned: T = end.value
            return returned
        finally:
            flow.close()
            await stream.close()

    container = _async_container(_calls.container)
    new_name = _async_container(_calls.new_name)
    lock = _async(_calls.lock)
    explain = _async(_calls.explain)
    search = _async(_calls.search)
    inspect = _async(_calls.inspect)
    status = _async(_calls.status)
    build_record = _async(_calls.build_record)
    build_log = _async(_calls.build_log)
    environment_of = _async(_calls.environment_of)
    build_lock = _async(_calls.build_lock)
    revoke = _async(_calls.revoke)


class _AsyncStream:
    """Performs the steps of one flow, which has at most one open response."""

    def __init__(self, client: AsyncClient) -> None:
        self._client, self._open = client, None

    _open: httpx.Response | None

    async def close(self) -> None:
        if self._open is not None:
            await self._open.aclose()
            self._open = None

    async def perform(self, step: Step) -> object:
        if isinstance(step, Sleep):
            await asyncio.sleep(step.seconds)
            return None
        if isinstance(step, Work):
            return await asyncio.to_thread(step.function)
        try:
            if isinstance(step, Read):
                return await anext(self._chunks, None)
            return await self._send(step)
        except httpx.HTTPError as e:
            raise self._client._failure(e, None if isinstance(step, Read) else step.request) from e

    async def _send(self, step: Send | Open) -> Response:
        await self.close()
        http, begin = self._client._http, time.monotonic()
        self._open = await http.send(http.build_request(**self._client._arguments(step.request)), stream=True)
        body = _Body(self._client.settings, step.request, self._open, begin)
        self._chunks = self._open.aiter_raw()
        if isinstance(step, Send) or self._open.status_code != 200:
            async for chunk in self._chunks:
                body.add(chunk)
            await self.close()
        return body.response()
