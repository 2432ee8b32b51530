"""What both clients send, and what they do with responses."""

from __future__ import annotations

import gzip
import json
from typing import Any

import httpx
import pytest
from conftest import Calls, Script, answer

import slipway

SUBMITTED = {
    "requestId": "ab12", "containerToken": "tok3n", "targetImage": "h/wt/tok3n/x:1", "containerImage": "h/x:1",
    "expiration": "2026-02-02T00:00:00.5Z", "buildId": "0123_1", "cached": False, "someLaterMember": [1],
}  # fmt: skip


def test_a_container_request(calls: Calls) -> None:
    server = Script(answer(SUBMITTED))
    container = calls(server, lambda c: c.container(["samtools=1.20"], channels=["bioconda"], env={"A": "b"}))
    request = server.requests[0]
    assert (request.method, str(request.url)) == ("POST", "http://slipway.test/v1alpha2/container")
    assert json.loads(request.content) == {
        "packages": {"type": "CONDA", "entries": ["samtools=1.20"], "channels": ["bioconda"]},
        "containerConfig": {"env": ["A=b"]},
    }
    assert request.headers["authorization"] == "Bearer secret-token"
    assert request.headers["user-agent"].startswith("slipway-python/")
    assert (container.name, container.request_id, container.build_id) == ("h/wt/tok3n/x:1", "ab12", "0123_1")
    assert container.expires.isoformat() == "2026-02-02T00:00:00.500000+00:00"
    assert container.ready is False
    assert container.cached is False


def test_secrets_are_not_shown(calls: Calls) -> None:
    container = calls(Script(answer(SUBMITTED)), lambda c: c.container(image="x"))
    client = slipway.Client("http://slipway.test", "secret-token")
    for shown in (repr(container), str(container), repr(container._submitted), repr(client), repr(client.settings)):
        assert "tok3n" not in shown
        assert "secret-token" not in shown


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after(calls: Calls, status: int) -> None:
    server = Script(
        answer({"message": "Wait"}, status, retry_after="2"),
        answer({"message": "Wait"}, status, retry_after="3"),
        answer(SUBMITTED),
    )
    assert calls(server, lambda c: c.container(image="x")).name
    assert calls.slept == [2, 3]
    assert len({r.content for r in server.requests}) == 1


def test_retry_after_is_bounded(calls: Calls) -> None:
    server = Script(*[answer({"message": "Wait", "code": "limit.builds"}, 429, retry_after="25")] * 5)
    with pytest.raises(slipway.SlipwayError, match="Wait") as e:
        calls(server, lambda c: c.container(image="x"))
    assert (calls.slept, e.value.retry_after, e.value.code) == ([25, 25], 25, "limit.builds")
    server = Script(*[answer({"message": "Wait"}, 503, retry_after="0")] * 2000)
    with pytest.raises(slipway.SlipwayError):
        calls(server, lambda c: c.container(image="x"))
    assert len(server.responses) > 500
    server = Script(answer({"message": "Wait"}, 429, retry_after="1"))
    with pytest.raises(slipway.SlipwayError):
        calls(server, lambda c: c.container(image="x"), retry_for=0)


@pytest.mark.parametrize(
    "response",
    [
        answer({"message": "No"}, 503),
        answer({"message": "No"}, 500, retry_after="1"),
        answer({"message": "No"}, 503, retry_after="soon"),
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
        httpx.RemoteProtocolError("cut off"),
    ],
)
def test_no_retry(calls: Calls, response: httpx.Response | Exception) -> None:
    server = Script(response)
    with pytest.raises(slipway.SlipwayError):
        calls(server, lambda c: c.container(image="x"))
    assert len(server.requests) == 1
    assert calls.slept == []


def test_what_is_not_safe_is_not_repeated(calls: Calls) -> None:
    server = Script(answer({"message": "Wait"}, 503, retry_after="1"))
    with pytest.raises(slipway.SlipwayError):
        calls(server, lambda c: c.revoke("ab12"))
    assert len(server.requests) == 1
    server = Script(answer({"message": "Wait"}, 429, retry_after="1"), httpx.Response(204))
    calls(server, lambda c: c.revoke("ab12"))


def test_redirects_are_not_followed(calls: Calls) -> None:
    for status in (301, 302, 307, 308):
        server = Script(httpx.Response(status, headers={"Location": "http://elsewhere.test/"}))
        with pytest.raises(slipway.SlipwayError, match=r"points to http://elsewhere.test/; redirects are not followed"):
            calls(server, lambda c: c.container(image="x"))
        assert [r.url.host for r in server.requests] == ["slipway.test"]


def test_the_size_of_a_response_is_bounded(calls: Calls) -> None:
    for response in (httpx.Response(200, content=b"x" * 1001), httpx.Response(500, content=b"x" * 1001)):
        with pytest.raises(slipway.SlipwayError, match="larger than 1,000 bytes"):
            calls(Script(response), lambda c: c.build_log("a_1"), max_response=1000)
    bomb = httpx.Response(200, stream=httpx.ByteStream(gzip.compress(b"x" * 10_000_000)), headers={"Content-Encoding": "gzip"})
    with pytest.raises(slipway.SlipwayError, match="compressed a response, which was not requested"):
        calls(Script(bomb), lambda c: c.build_log("a_1"))


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (httpx.Response(200, content=b"<html>"), "not as a Slipway server"),
        (httpx.Response(502, content=b"<html>"), "not as a Slipway server"),
        (answer([1]), "not as a Slipway server"),
        (answer({"targetImage": 1}), "targetImage is int"),
        (answer({"targetImage": "x", "expiration": "soon"}), "expiration is not a time"),
        (answer({"targetImage": "x", "cached": "yes"}), "cached is str"),
        (answer({}), "no image name"),
        (httpx.Response(200, content=b"[" * 100_000), "not as a Slipway server"),
        (httpx.Response(200, content=b'{"targetImage": ' + b"9" * 5000 + b"}"), "not as a Slipway server"),
        (answer({"message": "Sign in", "code": "auth.invalid"}, 401), r"Sign in \(sign in with `slipway login`"),
        (httpx.ConnectError("refused"), "no server answers at http://slipway.test"),
        (httpx.ReadTimeout("slow"), "did not respond within 60 seconds"),
    ],
)
def test_errors_are_clear(calls: Calls, response: httpx.Response | Exception, words: str) -> None:
    with pytest.raises(slipway.SlipwayError, match=words) as e:
        calls(Script(response), lambda c: c.container(image="x"))
    assert "secret-token" not in str(e.value)


def test_an_error_has_its_attributes(calls: Calls) -> None:
    body = {"message": "No such image", "code": "image.notFound", "details": {"a": 1}}
    with pytest.raises(slipway.SlipwayError) as e:
        calls(Script(answer(body, 400, x_request_id="r1")), lambda c: c.container(image="x"))
    got = (e.value.message, e.value.code, e.value.details, e.value.status, e.value.request_id, e.value.retry_after)
    assert got == ("No such image", "image.notFound", {"a": 1}, 400, "r1", None)


CONFLICT: dict[str, Any] = {
    "conflict": {"summary": "No", "specs": ["a", "b"], "reasons": [{"kind": "asked", "text": "a", "because": [{"text": "b"}]}]},
    "suggestions": [{"change": "leave out b", "packages": ["a"]}],
}


@pytest.mark.parametrize("body", [CONFLICT, {"details": CONFLICT}])
def test_a_conflict_is_data(calls: Calls, body: dict[str, Any]) -> None:
    response = {"message": "No\n  a", "code": "conda.conflict", **body}
    with pytest.raises(slipway.UnsolvableError) as e:
        calls(Script(answer(response, 422)), lambda c: c.lock(["a", "b"]))
    assert e.value.conflict.reasons[0].because[0].text == "b"
    assert e.value.suggestions == (slipway.Suggestion("leave out b", ("a",)),)
    assert e.value.details["conflict"]["specs"] == ["a", "b"]
    explanation = calls(Script(answer(response, 422)), lambda c: c.explain(["a", "b"]))
    assert (explanation.solvable, explanation.conflict) == (False, e.value.conflict)


def test_other_calls(calls: Calls) -> None:
    def sent(call: Any, response: httpx.Response, **options: Any) -> tuple[str, Any]:
        server = Script(response)
        calls(server, call, **options)
        r = server.requests[0]
        return f"{r.method} {r.url.raw_path.decode()}", json.loads(r.content) if r.content else None

    lock = {"packages": {"type": "CONDA", "entries": ["a"]}}
    assert sent(lambda c: c.lock(["a"]), answer({})) == ("POST /v1alpha1/conda/lock", lock | {"format": "explicit"})
    assert sent(lambda c: c.explain(["a"], platforms="linux/arm64"), answer({}))[1] == lock | {"platforms": ["linux/arm64"]}
    assert sent(lambda c: c.search(command="b c", max=3), answer({}))[0] == "GET /v1alpha1/conda/packages?command=b+c&max=3"
    found = sent(lambda c: c.search("json", license="MIT"), answer({}))
    assert found[0] == "GET /v1alpha1/conda/packages?q=json&license=MIT&max=20"
    assert sent(lambda c: c.inspect("x", platform="linux/arm64"), answer({}), workspace=7) == (
        "POST /v1alpha1/inspect?platform=linux%2Farm64",
        {"containerImage": "x", "platformWorkspaceId": 7},
    )
    assert sent(lambda c: c.build_record("a/../b"), answer({}))[0] == "GET /v1alpha1/builds/a%2F..%2Fb"
    assert sent(lambda c: c.new_name("ab"), answer(SUBMITTED))[0] == "POST /v1alpha2/container/ab/name"
    assert sent(lambda c: c.status("ab"), answer({}))[0] == "GET /v1alpha2/container/ab/status"
    assert sent(lambda c: c.build_lock("a_1"), answer({}))[0] == "GET /v1alpha1/builds/a_1/lock?format=explicit"
    assert sent(lambda c: c.environment_of("3c5e"), answer({}))[0] == "GET /v1alpha1/environments/3c5e"
    assert sent(lambda c: c.environment_of("sha256:3c"), answer({}), workspace=7)[0] == (
        "GET /v1alpha1/environments/sha256%3A3c?workspaceId=7"
    )


def test_the_calls_of_a_container(calls: Calls) -> None:
    def sent(call: Any, response: httpx.Response) -> str:
        server = Script(answer(SUBMITTED), response)
        calls(server, lambda c: c.container(image="x"), call)
        return f"{server.requests[1].method} {server.requests[1].url.path}"

    assert sent(lambda c: c.status(), answer({})) == "GET /v1alpha2/container/ab12/status"
    assert sent(lambda c: c.build_record(), answer({})) == "GET /v1alpha1/builds/0123_1"
    assert sent(lambda c: c.log(), httpx.Response(200)) == "GET /v1alpha1/builds/0123_1/logs"
    assert sent(lambda c: c.lock(), httpx.Response(200)) == "GET /v1alpha1/builds/0123_1/lock"
    assert sent(lambda c: c.new_name(), answer(SUBMITTED)) == "POST /v1alpha2/container/tok3n/name"
    assert sent(lambda c: c.revoke(), httpx.Response(204)) == "DELETE /v1alpha2/container/tok3n"
    with pytest.raises(ValueError, match="neither log nor lock"):
        calls(Script(answer(SUBMITTED | {"buildId": None})), lambda c: c.container(image="x"), lambda c: c.log())


def test_a_workspace_by_name(calls: Calls) -> None:
    user = answer({"user": {"id": 3, "userName": "me"}})
    spaces = answer(
        {
            "orgsAndWorkspaces": [
                {"orgName": "Lab", "workspaceId": None},
                {"orgName": "Lab", "workspaceId": 9, "workspaceName": "Team"},
            ]
        }
    )
    server = Script(user, spaces, answer(SUBMITTED))
    calls(server, lambda c: c.container(image="x"), workspace="lab/team")
    assert [r.url.path for r in server.requests] == ["/api/user-info", "/api/user/3/workspaces", "/v1alpha2/container"]
    assert json.loads(server.requests[2].content)["platformWorkspaceId"] == 9
    with pytest.raises(ValueError, match="needs an access token"):
        calls(Script(), lambda c: c.container(image="x"), workspace="lab/team", token="")


def test_signatures_are_those_of_the_calls() -> None:
    import inspect

    assert list(inspect.signature(slipway.Client.status).parameters) == ["self", "request_id"]
    assert list(inspect.signature(slipway.container).parameters)[:2] == ["packages", "environment"]
    assert list(inspect.signature(slipway.AsyncContainer.lock).parameters) == ["self", "format"]
    assert (slipway.search.__doc__ or "").startswith("Find Conda packages")
    public = {n for n in vars(slipway.Client) if not n.startswith("_")} - {"close"}
    assert public == {n for n in vars(slipway.AsyncClient) if not n.startswith("_")} - {"aclose"}
