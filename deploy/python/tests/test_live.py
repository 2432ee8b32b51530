"""The client and a server, which TestPythonClient of services/e2e starts."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import httpx
import pytest

import slipway

BASE = os.environ.get("SLIPWAY_TEST_BASE", "")  # an image for both platforms
CONTROL = os.environ.get("SLIPWAY_TEST_CONTROL", "")  # the URL at which what the channel holds back is released
RESULTS = os.environ.get("SLIPWAY_TEST_RESULTS", "")  # a folder for names, whose images services/e2e compares

pytestmark = pytest.mark.skipif(not BASE, reason="needs a server: go test -run TestPythonClient ./services/e2e")

CONDA: dict[str, Any] = {"channels": ["lab"], "base_image": BASE, "base_packages": ""}


def result(**names: str) -> None:
    """Let services/e2e pull images."""
    for key, name in names.items():
        Path(RESULTS, key).write_text(name)


class Recorder(httpx.HTTPTransport):
    """Records the statuses of responses."""

    def __init__(self) -> None:
        super().__init__()
        self.statuses: list[int] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        self.statuses.append(response.status_code)
        if response.status_code == 503:
            httpx.get(CONTROL + "/busy")
        return response


def test_conda_packages() -> None:
    events: list[slipway.Event] = []
    container = slipway.container(["libcurl"], **CONDA, env={"A": "b"}).wait(timeout=300, on_event=events.append)
    assert {"phase", "log"} == {e.kind for e in events}
    assert any("packages exist" in e.text for e in events)
    assert [e.text for e in events if e.kind == "log"] == container.log().splitlines()
    assert container.status().status == "DONE"
    build = container.build_record()
    assert build.succeeded
    assert build.digest.startswith("sha256:")
    assert "libcurl-8.4.0" in container.lock(format="explicit-sha256")
    inspected = slipway.inspect(container.name)
    assert inspected.container is not None
    assert "A=b" in inspected.container.config.config.env
    result(conda=container.name, fresh=container.new_name().name)


def test_a_lock_gives_the_same_image() -> None:
    """On another server, too."""
    text = slipway.lock(["libcurl", "libffi"], channels=["lab"], format="explicit-sha256")
    assert "@EXPLICIT" in text
    digests = set()
    for server in (None, os.environ["SLIPWAY_TEST_LIMITED"]):
        with slipway.Client(server) as client:
            container = client.container(environment=text, base_image=BASE, base_packages="").wait(timeout=300)
            assert container.cached is False
            digests.add(container.build_record().digest)
            assert set(container.lock(format="explicit-sha256").splitlines()) >= {u for u in text.splitlines() if u.startswith("http")}
    assert len(digests) == 1
    assert "" not in digests
    explanation = slipway.explain(["libcurl", "libffi"], channels=["lab"])
    assert explanation.solvable
    assert {p.name for p in explanation.locks[0].packages} == {"libcurl", "libffi", "libzlib", "c-ares"}


def test_what_cannot_be() -> None:
    with pytest.raises(slipway.UnsolvableError, match="No libzlib fits") as e:
        slipway.container(["libcurl", "libzlib=1.3"], **CONDA)
    assert (e.value.code, e.value.status) == ("conda.conflict", 400)
    assert e.value.conflict.summary
    assert e.value.request_id
    explanation = slipway.explain(["libcurl", "libzlib=1.3"], channels=["lab"])
    assert (explanation.solvable, explanation.conflict) == (False, e.value.conflict)
    with pytest.raises(slipway.UnsolvableError) as missing:
        slipway.lock(["libcurll"], channels=["lab"])
    assert missing.value.conflict.missing[0].nearest[0] == "libcurl"


def test_an_image_with_a_layer(tmp_path: Path) -> None:
    (tmp_path / "opt").mkdir()
    (tmp_path / "opt" / "hello.txt").write_text("packed")
    container = slipway.container(image=BASE, layers=[tmp_path], entrypoint=["/bin/new"], platforms="linux/arm64")
    assert (container.ready, container.build_id) == (True, "")
    assert container.expires is not None
    result(image=container.wait().name)
    container.revoke()
    other = slipway.container(image=BASE, layers=[tmp_path], entrypoint=["/bin/new"], platforms="linux/arm64")
    result(image=other.name, revoked=container.name)


def test_search() -> None:
    found = slipway.search("curl", channel="lab")
    assert [p.name for p in found.packages] == ["libcurl"]


def test_errors_of_the_server() -> None:
    with slipway.Client(token="wrong") as client, pytest.raises(slipway.SlipwayError, match="sign in") as e:
        client.container(image=BASE)
    assert (e.value.code, e.value.status) == ("auth.invalid", 401)
    with pytest.raises(slipway.SlipwayError) as missing:
        slipway.container(image=BASE.rpartition(":")[0] + ":missing")
    assert missing.value.code in ("image.notFound", "image.denied")
    with slipway.Client("http://127.0.0.1:1") as client, pytest.raises(slipway.UnreachableError, match="no server answers"):
        client.search("x")


def test_twenty_at_once() -> None:
    async def request(client: slipway.AsyncClient, n: int) -> tuple[str, str]:
        container = await client.container([["lz4-c"], ["libffi"], ["libuuid"], ["libffi", "lz4-c"]][n % 4], **CONDA, env={"N": str(n)})
        await container.wait(timeout=300, on_event=(lambda e: None) if n % 2 else None)
        return container.name, (await container.build_record()).digest

    async def run() -> list[tuple[str, str]]:
        async with slipway.AsyncClient() as client:
            return await asyncio.gather(*(request(client, n) for n in range(20)))

    got = asyncio.run(run())
    assert len({name for name, _ in got}) == 20
    assert len({digest for _, digest in got}) == 4


def test_a_cancelled_wait() -> None:
    """The build continues, and waits until the test releases its package."""

    async def run() -> None:
        async with slipway.AsyncClient() as client:
            container = await client.container(["libedit"], **CONDA)
            running = asyncio.Event()
            task = asyncio.create_task(container.wait(on_event=lambda e: running.set()))
            await asyncio.wait_for(running.wait(), 300)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            with pytest.raises(slipway.WaitTimeoutError):
                await container.wait(timeout=1)
            with pytest.raises(slipway.WaitTimeoutError):
                await container.wait(timeout=1, on_event=lambda e: None)
            assert (await container.status()).status in ("PENDING", "BUILDING")
            async with httpx.AsyncClient() as http:
                await http.get(CONTROL + "/held")
            await container.wait(timeout=300)
            assert (await container.build_record()).succeeded

    asyncio.run(run())


def test_retry_after_503() -> None:
    """The channel is failing until the client has seen it."""
    recorder = Recorder()
    with slipway.Client(transport=recorder, retry_for=300) as client:
        assert "lz4-c" in client.lock(["lz4-c"], channels=["busy"], format="explicit-sha256")
    assert recorder.statuses[-1] == 200
    assert 503 in recorder.statuses


def test_retry_after_429() -> None:
    recorder = Recorder()
    with slipway.Client(os.environ["SLIPWAY_TEST_LIMITED"], "", transport=recorder, retry_for=300) as client:
        for _ in range(100):
            assert client.search("curl", channel="lab").total == 1
            if 429 in recorder.statuses:
                return
    pytest.fail(f"the limit was never reached: {recorder.statuses}")


@pytest.mark.skipif("SLIPWAY_TEST_STEPS" not in os.environ, reason="needs a worker that runs build steps")
def test_a_dockerfile(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {BASE}\nCOPY . /in/\n")
    (tmp_path / ".dockerignore").write_text("secret.txt\n")
    (tmp_path / "hello.txt").write_text("of the context")
    (tmp_path / "secret.txt").write_text("not to be sent")
    container = slipway.container(dockerfile=tmp_path / "Dockerfile", context=tmp_path)
    result(dockerfile=container.wait(timeout=600).name)
    with pytest.raises(slipway.BuildError, match="exit code 3") as e:
        slipway.container(dockerfile=f"FROM {os.environ['SLIPWAY_TEST_STEPS']}\nRUN echo going wrong && exit 3\n").wait(timeout=600)
    assert e.value.reason_code == "build"
    with slipway.Client() as client:
        assert "going wrong" in client.build_log(e.value.build_id)
