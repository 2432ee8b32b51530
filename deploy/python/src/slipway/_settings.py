"""Which server is used, and as which user. The rules are those of the command line."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

DEFAULT_SERVER = "http://localhost:9090"


def version() -> str:
    """Return the version of this package; ``"unknown"`` if it is not installed."""
    try:
        return metadata.version("slipway-client")
    except metadata.PackageNotFoundError:
        return "unknown"


@dataclass(frozen=True)
class Settings:
    """Which server is used, as which user, and the bounds of calls.

    Attributes:
        server: The server's URL, without a slash at its end.
        token: The access token; empty for an anonymous caller.
        workspace: The workspace of every call: an id, ORGANISATION/WORKSPACE, or None for the personal one.
        timeout: The most seconds that one call may take, without waits for Retry-After; None for no bound.
        retry_for: The most seconds that one call waits in total because the server sent Retry-After.
        max_response: The largest response that is accepted, in bytes.
        outage: How long, in seconds, a wait continues while the server cannot be reached.
        user_agent: The User-Agent of calls.
    """

    server: str
    token: str = field(default="", repr=False)
    workspace: int | str | None = None
    timeout: float | None = 60
    retry_for: float = 60
    max_response: int = 40_000_000
    outage: float = 120
    user_agent: str = f"slipway-python/{version()}"


def resolve(
    server: str | None,
    token: str | None,
    workspace: int | str | None,
    environ: Mapping[str, str],
    timeout: float | None = 60,
    retry_for: float = 60,
    max_response: int = 40_000_000,
) -> Settings:
    """Return the settings of a client.

    Arguments win over SLIPWAY_SERVER, SLIPWAY_TOKEN and SLIPWAY_WORKSPACE, which win over the login that
    ``slipway login`` has stored. A stored token is only used for the server that it was stored for.
    """
    for name, number in {"timeout": timeout, "retry_for": retry_for, "max_response": max_response}.items():
        if number is not None and not number >= (0 if name == "retry_for" else 1e-3):
            raise ValueError(f"{name} must be positive, not {number!r}")
    stored = _logins(environ)
    server = server or environ.get("SLIPWAY_SERVER") or _text(stored.get("server")) or DEFAULT_SERVER
    server = server.rstrip("/")
    key = _key(server)
    if token is None:
        token = environ.get("SLIPWAY_TOKEN", "").strip() or _text(_object(_object(stored.get("logins")).get(key)).get("token"))
    token = token.strip()
    if not token.isascii() or not token.isprintable():
        raise ValueError("token has characters that no access token has; copy it again")
    if workspace is None:
        workspace = environ.get("SLIPWAY_WORKSPACE", "").strip() or None
    return Settings(server, token, workspace, timeout, retry_for, max_response)


def _key(server: str) -> str:
    """Return the normalized URL of a server, which stored logins have as their key."""
    try:
        url = urlsplit(server)
        port = url.port
    except ValueError:
        url, port = urlsplit(""), None
    if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment:
        raise ValueError(f"server must be a URL such as {DEFAULT_SERVER}, not {_without_login(server)!r}; set server= or SLIPWAY_SERVER")
    if url.username is not None or url.password is not None:
        raise ValueError("server must not contain a user name or password; give the access token with token= or SLIPWAY_TOKEN")
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    if port is not None and (url.scheme, port) not in (("http", 80), ("https", 443)):
        host += f":{port}"
    return f"{url.scheme}://{host}{url.path.rstrip('/')}"


def _without_login(server: str) -> str:
    scheme, _, rest = server.rpartition("@")
    return rest if scheme else server


def _logins(environ: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the file of logins that ``slipway login`` writes; an empty mapping if there is none."""
    folder = environ.get("XDG_CONFIG_HOME", "")
    home = environ.get("HOME") or environ.get("USERPROFILE")
    if os.path.isabs(folder):
        path = Path(folder)
    elif home:
        path = Path(home, ".config")
    else:
        return {}
    path = path / "slipway" / "logins.json"
    try:
        stored = json.loads(path.read_bytes())
        if not isinstance(stored, dict):
            raise ValueError("it is not a JSON object")
        return stored
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as e:
        raise ValueError(f"reading the stored logins: {e}; remove {path} and run `slipway login` again") from None


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
