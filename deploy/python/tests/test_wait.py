"""Waiting for builds, across failures of the connection."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator

import httpx
import pytest
from conftest import Calls, Script, answer, events, fresh
from test_calls import SUBMITTED

import slipway

PENDING = {"id": "ab12", "status": "PENDING", "buildId": "0123_1"}
DONE = {"id": "ab12", "status": "DONE", "buildId": "0123_1", "succeeded": True}


def test_poll(calls: Calls) -> None:
    server = Script(answer(SUBMITTED), answer(PENDING), answer({"message": "Wait"}, 503), httpx.ReadError("lost"), answer(DONE))
    container = calls(server, lambda c: c.container(image="x"), lambda c: c.wait())
    assert container.name == "h/wt/tok3n/x:1"
    assert calls.slept == pytest.approx([0.2, 0.3, 0.45])


def test_nothing_to_wait_for(calls: Calls) -> None:
    assert calls(Script(answer(SUBMITTED | {"succeeded": True})), lambda c: c.container(image="x"), lambda c: c.wait()).ready
    with pytest.raises(ValueError, match="dry run"):
        calls(Script(answer(SUBMITTED | {"buildId": "0123_0"})), lambda c: c.container(image="x", dry_run=True), lambda c: c.wait())


def test_a_build_fails(calls: Calls) -> None:
    failed = DONE | {"succeeded": False, "reasonCode": "build", "message": "exit code 3"}
    with pytest.raises(slipway.BuildError, match=r"build 0123_1 failed \(build\): exit code 3") as e:
        calls(Script(answer(SUBMITTED), answer(failed)), lambda c: c.container(image="x"), lambda c: c.wait())
    assert (e.value.build_id, e.value.reason_code) == ("0123_1", "build")


def test_a_request_is_revoked(calls: Calls) -> None:
    server = Script(answer(SUBMITTED), answer({"message": "No such request", "code": "object.notFound"}, 404))
    with pytest.raises(slipway.SlipwayError, match="No such request"):
        calls(server, lambda c: c.container(image="x"), lambda c: c.wait())


def test_events_are_passed_on_once(calls: Calls) -> None:
    heard: list[slipway.Event] = []
    server = Script(
        answer(SUBMITTED),
        events("retry: 700\n\nevent: phase\nid: 0\ndata: fetch\n\nevent: log\nid: 1\ndata: one\n\nevent: log\nid: 2\ndata: of half an ev"),
        httpx.ConnectError("refused"),
        answer({"message": "Too many streams"}, 429, retry_after="1"),
        events(
            "event: phase\nid: 1\ndata: fetch\n\n: beat\n\nevent: log\nid: 2\ndata: two\ndata: lines\n\nevent: done\nid: 2\ndata: {}\n\n"
        ),
        answer(DONE),
    )
    calls(server, lambda c: c.container(image="x"), lambda c: c.wait(on_event=heard.append))
    assert [(e.kind, e.text) for e in heard] == [("phase", "fetch"), ("log", "one"), ("log", "two\nlines")]
    assert [r.headers.get("last-event-id") for r in server.requests[1:5]] == [None, "1", "1", "1"]
    assert calls.slept == pytest.approx([0.7, 0.7, 0.7])


def test_two_builds_are_followed(calls: Calls) -> None:
    heard: list[str] = []
    done = "event: log\nid: 1\ndata: {}\n\nevent: done\nid: 1\ndata: {{}}\n\n"
    server = Script(
        answer(SUBMITTED),
        events(done.format("amd64")),
        answer(PENDING | {"buildId": "0123_2"}),
        events(done.format("arm64")),
        answer(DONE),
    )
    calls(server, lambda c: c.container(image="x"), lambda c: c.wait(on_event=lambda e: heard.append(e.text)))
    assert heard == ["amd64", "arm64"]
    assert calls.slept == []


def test_an_error_of_the_callback_ends_the_wait(calls: Calls) -> None:
    def fail(_: slipway.Event) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        calls(
            Script(answer(SUBMITTED), events("event: log\ndata: x\n\n")),
            lambda c: c.container(image="x"),
            lambda c: c.wait(on_event=fail),
        )


def test_a_timeout(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    now = itertools.count(1000.0, 0.5)
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    server = Script(answer(SUBMITTED), *[answer(PENDING)] * 100)
    with pytest.raises(slipway.WaitTimeoutError, match="has not ended within the timeout"):
        calls(server, lambda c: c.container(image="x"), lambda c: c.wait(timeout=10))
    assert isinstance(slipway.WaitTimeoutError("x"), TimeoutError)


def test_an_outage_ends_a_wait(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    now = itertools.count(1000.0, 5.0)
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    for first in ([], [events("event: log\ndata: x\n\n")]):
        server = Script(answer(SUBMITTED), *first, *[httpx.ConnectError("refused")] * 100)
        on_event = (lambda e: None) if first else None
        with pytest.raises(slipway.UnreachableError, match="no server answers"):
            calls(server, lambda c: c.container(image="x"), lambda c, f=on_event: c.wait(on_event=f))  # type: ignore[misc]
        assert len(server.responses) > 50


def test_a_cancelled_wait_closes_its_stream() -> None:
    closed = asyncio.Event()

    class Silent(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"event: phase\ndata: build\n\n"
            await asyncio.sleep(3600)

        async def aclose(self) -> None:
            closed.set()

    def handler(request: httpx.Request) -> httpx.Response:
        return fresh(answer(SUBMITTED)) if request.method == "POST" else httpx.Response(200, stream=Silent())

    async def run() -> None:
        async with slipway.AsyncClient("http://slipway.test", "", transport=httpx.MockTransport(handler)) as client:
            container = await client.container(image="x")
            heard = asyncio.Event()
            task = asyncio.create_task(container.wait(on_event=lambda e: heard.set()))
            await heard.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert closed.is_set()

    asyncio.run(run())
