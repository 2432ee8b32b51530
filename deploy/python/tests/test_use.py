"""Errors of use, settings, and what a request is built from."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Calls, Script, answer
from test_calls import SUBMITTED

import slipway


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({}, ValueError, "exactly one of packages, environment, image, dockerfile; none of them"),
        ({"packages": ["a"], "image": "b"}, ValueError, "packages and image was given"),
        ({"packages": "samtools"}, TypeError, r"packages must be a list, such as \['samtools'\]"),
        ({"packages": [1]}, TypeError, "list of strings"),
        ({"packages": ["a"], "channels": "bioconda"}, TypeError, "channels must be a list"),
        ({"image": "a", "channels": ["b"]}, ValueError, "channels is for packages or an environment, not for image"),
        ({"image": "a", "refresh": True}, ValueError, "refresh is for packages"),
        ({"image": "a", "base_packages": ""}, ValueError, "base_packages is for packages"),
        ({"image": "a", "context": "."}, ValueError, "context is the files of a dockerfile"),
        ({"image": "a", "entrypoint": "sh -c"}, TypeError, "entrypoint must be a list"),
        ({"image": "a", "layers": ["https://x.test/l.tar.gz"]}, ValueError, "give slipway.Layer"),
        ({"image": "a", "layers": "tools"}, TypeError, "layers must be a list"),
        ({"image": "a", "env": ["A=b"]}, TypeError, "env must be a mapping"),
        ({"image": "a", "compression": "zip"}, ValueError, "compression must be"),
        ({"environment": "env/environment.yml"}, ValueError, r"looks like a path; give pathlib.Path\('env/environment.yml'\)"),
        ({"environment": ""}, ValueError, "environment is empty"),
        ({"environment": b"x"}, TypeError, "environment must be the text"),
        ({"dockerfile": "FROM x\n" + "#" * (1 << 20)}, ValueError, "dockerfile has 1,048,583 bytes; the limit is 1,048,576"),
    ],
)
def test_wrong_arguments(calls: Calls, arguments: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        calls(Script(), lambda c: c.container(**arguments))


def test_wrong_arguments_of_other_calls(calls: Calls) -> None:
    with pytest.raises(ValueError, match="exactly one of name, command and file"):
        calls(Script(), lambda c: c.search())
    with pytest.raises(ValueError, match="either packages or environment"):
        calls(Script(), lambda c: c.lock())
    with pytest.raises(ValueError, match="is not an id"):
        calls(Script(), lambda c: c.build_record(".."))


def body(calls: Calls, **arguments: Any) -> dict[str, Any]:
    server = Script(answer(SUBMITTED))
    calls(server, lambda c: c.container(**arguments))
    sent: dict[str, Any] = json.loads(server.requests[0].content)
    return sent


def test_bodies(calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM x\nCOPY . /\n")
    (tmp_path / ".dockerignore").write_text("*\n!a.txt\n")
    (tmp_path / "a.txt").write_text("a")
    got = body(
        calls,
        dockerfile=tmp_path / "Dockerfile",
        context=tmp_path,
        platforms=["linux/amd64", "linux/arm64"],
        freeze="r.test/me/x",
    )
    context = got.pop("buildContext")
    assert context["gzipSize"] == len(base64.b64decode(context["location"].removeprefix("data:")))
    assert got == {
        "containerFile": base64.b64encode(b"FROM x\nCOPY . /\n").decode(),
        "containerPlatform": "linux/amd64,linux/arm64", "buildRepository": "r.test/me/x", "freeze": True,
    }  # fmt: skip
    conda = {"environment": "dependencies: [a]", "base_packages": "", "commands": ["RUN x"], "as_of": "2026-01-01"}
    assert body(calls, **conda, compression="gzip:0,force") == {
        "packages": {
            "type": "CONDA", "environment": base64.b64encode(b"dependencies: [a]").decode(),
            "condaOpts": {"basePackages": "", "commands": ["RUN x"]},
        },
        "buildCompression": {"mode": "gzip", "level": 0, "force": True}, "asOf": "2026-01-01",
    }  # fmt: skip
    assert body(calls, packages=["a"], keep=True) == {"packages": {"type": "CONDA", "entries": ["a"]}, "keep": True}
    assert body(calls, packages=["a"], mounted=True) == {"packages": {"type": "CONDA", "entries": ["a"]}, "format": "environment"}
    lazy = {"packages": {"type": "CONDA", "entries": ["a"]}, "soci": True, "sociPrefetch": ["/opt/conda/bin/a"]}
    assert body(calls, packages=["a"], soci=True, soci_prefetch=["/opt/conda/bin/a"]) == lazy
    with pytest.raises(ValueError, match="soci_prefetch is only for soci"):
        body(calls, packages=["a"], soci_prefetch=["/a"])
    with pytest.raises(ValueError, match="mounted is for packages"):
        body(calls, image="x", mounted=True)
    with pytest.raises(ValueError, match="either singularity or mounted"):
        body(calls, packages=["a"], mounted=True, singularity=True)
    with pytest.raises(ValueError, match="keep is for packages"):
        body(calls, image="x", keep=True)
    layer = slipway.Layer("https://x.test/l.tar.gz", "sha256:" + "0" * 64, "sha256:" + "1" * 64, 7)
    assert body(calls, image="x", layers=[layer], includes=["y"], singularity=True, cmd=["a", ""])["containerConfig"] == {
        "cmd": ["a", ""],
        "layers": [{"location": layer.location, "gzipDigest": layer.gzip_digest, "tarDigest": layer.tar_digest, "gzipSize": 7}],
    }
    assert body(calls, packages=["dplyr"], r_packages=True)["packages"]["type"] == "CRAN"


def test_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def settings(**arguments: Any) -> tuple[str, str]:
        s = slipway.Client(**arguments).settings
        return s.server, s.token

    for name in ("SLIPWAY_SERVER", "SLIPWAY_TOKEN", "SLIPWAY_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert settings() == ("http://localhost:9090", "")
    (tmp_path / "slipway").mkdir()
    logins = {
        "server": "https://a.test",
        "logins": {"https://a.test": {"token": "of-a"}, "http://b.test:8080/x": {"token": "of-b"}},
    }
    (tmp_path / "slipway" / "logins.json").write_text(json.dumps(logins))
    assert settings() == ("https://a.test", "of-a")
    assert settings(server="https://A.test:443/") == ("https://A.test:443", "of-a")
    assert settings(server="http://a.test") == ("http://a.test", "")
    assert settings(server="http://b.test:8080/x/") == ("http://b.test:8080/x", "of-b")
    monkeypatch.setenv("SLIPWAY_TOKEN", " of-env\n")
    monkeypatch.setenv("SLIPWAY_SERVER", "https://c.test")
    assert settings() == ("https://c.test", "of-env")
    assert settings(server="https://a.test", token="") == ("https://a.test", "")
    (tmp_path / "slipway" / "logins.json").write_text("[]")
    with pytest.raises(ValueError, match="reading the stored logins: it is not a JSON object; remove"):
        settings()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"server": "slipway.example.org"}, "server must be a URL such as"),
        ({"server": "ftp://x"}, "server must be a URL"),
        ({"server": "http://x:y"}, "server must be a URL"),
        ({"server": "http://x?y"}, "server must be a URL"),
        ({"server": "http://me:s3cret@x.test"}, "must not contain a user name"),
        ({"token": "a\nb"}, "token has characters"),
        ({"timeout": 0}, "timeout must be positive"),
        ({"retry_for": -1}, "retry_for must be positive"),
    ],
)
def test_wrong_settings(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as e:
        slipway.Client(**arguments)
    assert "s3cret" not in str(e.value)


def test_no_proxy_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx

    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "")
    for server, direct in (("http://localhost:9090", True), ("http://[::1]:9090", True), ("http://x.test", False)):
        http = slipway.Client(server)._http
        assert (http._transport_for_url(httpx.URL(server)) is http._transport) == direct
