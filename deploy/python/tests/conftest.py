from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import httpx
import pytest

import slipway

Handler = Callable[[httpx.Request], httpx.Response]


class Calls:
    """Runs the same calls with the synchronous and with the asynchronous client."""

    def __init__(self, is_async: bool) -> None:
        self.is_async = is_async
        self.slept: list[float] = []

    def __call__(self, handler: Handler, *calls: Callable[[Any], Any], **options: Any) -> Any:
        """Run calls, each with the result of the one before; the first gets a client."""
        options = {"server": "http://slipway.test", "token": "secret-token", **options}
        if not self.is_async:
            with slipway.Client(transport=httpx.MockTransport(handler), **options) as client:
                result: Any = client
                for call in calls:
                    result = call(result)
                return result

        async def run() -> Any:
            async with slipway.AsyncClient(transport=httpx.MockTransport(handler), **options) as client:
                result: Any = client
                for call in calls:
                    result = call(result)
                    if inspect.isawaitable(result):
                        result = await result
                return result

        return asyncio.run(run())


@pytest.fixture(params=["sync", "async"])
def calls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Both clients, which do not really sleep."""
    c = Calls(request.param == "async")
    monkeypatch.setattr("slipway._client.time.sleep", c.slept.append)

    async def sleep(seconds: float) -> None:
        c.slept.append(seconds)

    monkeypatch.setattr("slipway._client.asyncio.sleep", sleep)
    return c


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test uses the logins of the user."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))


def fresh(response: httpx.Response) -> httpx.Response:
    """Return a response that was not read yet, as a server sends it."""
    if not response.is_stream_consumed:
        return response
    return httpx.Response(response.status_code, headers=response.headers, stream=httpx.ByteStream(response.content))


class Script:
    """A handler that returns responses in order, and records the requests."""

    def __init__(self, *responses: httpx.Response | Exception) -> None:
        self.responses = list(responses)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        response = self.responses.pop(0)
        if isinstance(response, Exception):
            raise response
        return fresh(response)


def answer(body: Any, status: int = 200, **headers: str) -> httpx.Response:
    return httpx.Response(status, json=body, headers={k.replace("_", "-"): v for k, v in headers.items()})


def events(text: str) -> httpx.Response:
    return httpx.Response(200, content=text.encode(), headers={"Content-Type": "text/event-stream"})
