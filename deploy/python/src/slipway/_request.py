"""Building of container requests and of lock requests."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from slipway._ignore import read_ignored
from slipway._layer import Layer, pack

Text = str | Path
Files = str | os.PathLike[str] | Layer
LockFormat = Literal["explicit", "explicit-sha256", "conda-lock", "pixi"]

# A recipe has at most 1 MiB (gateway/contract/container-service.md#container-request).
MAX_TEXT = 1 << 20


def container_body(
    packages: Sequence[str] | None,
    *,
    environment: Text | None,
    environment_name: str | None,
    channels: Sequence[str],
    r_packages: bool,
    base_image: str | None,
    base_packages: str | None,
    commands: Sequence[str],
    compile_python: bool,
    as_of: str | None,
    min_age: str | None,
    min_age_except: Sequence[str],
    refresh: bool,
    image: str | None,
    dockerfile: Text | None,
    context: Files | None,
    layers: Sequence[Files],
    includes: Sequence[str],
    env: Mapping[str, str] | None,
    entrypoint: Sequence[str],
    cmd: Sequence[str],
    workdir: str | None,
    platforms: str | Sequence[str],
    freeze: str | None,
    keep: bool,
    cache_repository: str | None,
    singularity: bool,
    mounted: bool,
    soci: bool,
    soci_prefetch: Sequence[str],
    compression: str | None,
    name_strategy: str | None,
    dry_run: bool,
) -> dict[str, Any]:
    """Return the body of a container request. The parameters are those of ``Client.container``."""
    sources = {"packages": packages, "environment": environment, "image": image, "dockerfile": dockerfile}
    given = [name for name, value in sources.items() if value is not None]
    if len(given) != 1:
        raise ValueError(f"give exactly one of {', '.join(sources)}; {' and '.join(given) or 'none of them'} was given")
    if context is not None and dockerfile is None and not commands:
        raise ValueError("context is the files of a dockerfile, or of commands; give one of these too")
    if singularity and mounted:
        raise ValueError("give either singularity or mounted")
    if soci_prefetch and not soci:
        raise ValueError("soci_prefetch is only for soci")
    conda = {
        "channels": channels, "environment_name": environment_name, "r_packages": r_packages, "base_image": base_image,
        "base_packages": base_packages, "commands": commands, "compile_python": compile_python, "as_of": as_of,
        "min_age": min_age, "min_age_except": min_age_except, "refresh": refresh, "keep": keep, "mounted": mounted,
    }  # fmt: skip
    if packages is None and environment is None:
        for name, value in conda.items():
            if value not in (None, False, ()) and value != []:
                raise ValueError(f"{name} is for packages or an environment, not for {given[0]}")
    body: dict[str, Any] = {
        "containerImage": image,
        "containerFile": None if dockerfile is None else _encoded("dockerfile", dockerfile),
        "buildContext": None if context is None else _context(context, dockerfile).to_json(),
        "containerIncludes": _list("includes", includes),
        "containerConfig": _without_absent(
            {
                "env": _variables(env),
                "entrypoint": _list("entrypoint", entrypoint),
                "cmd": _list("cmd", cmd),
                "workingDir": workdir,
                "layers": _layers(layers),
            }
        ),
        "containerPlatform": platforms if isinstance(platforms, str) else ",".join(platforms),
        "buildRepository": freeze,
        "freeze": freeze is not None,
        "keep": keep,
        "cacheRepository": cache_repository,
        "format": "sif" if singularity else "environment" if mounted else None,
        "soci": soci,
        "sociPrefetch": _list("soci_prefetch", soci_prefetch),
        "buildCompression": None if compression is None else _compression(compression),
        "nameStrategy": name_strategy,
        "dryRun": dry_run,
        "asOf": as_of,
        "minAge": min_age,
        "minAgeExcept": _list("min_age_except", min_age_except),
        "refresh": refresh,
    }
    if packages is not None or environment is not None:
        options = _without_absent({"baseImage": base_image, "commands": _list("commands", commands), "compile": compile_python})
        if base_packages is not None:
            options["basePackages"] = base_packages  # "" means none
        kind = "CRAN" if r_packages else "CONDA"
        body["packages"] = _packages(packages, environment, environment_name, channels, kind) | _without_absent({"condaOpts": options})
    return _without_absent(body)


def lock_body(
    packages: Sequence[str] | None,
    *,
    environment: Text | None,
    environment_name: str | None,
    channels: Sequence[str],
    platforms: str | Sequence[str],
    virtual_packages: Mapping[str, str] | None,
    as_of: str | None,
    min_age: str | None,
    min_age_except: Sequence[str],
    exclude_newer: str | None,
    refresh: bool,
    flexible: bool,
    for_container: bool,
    format: LockFormat | None,
) -> dict[str, Any]:
    """Return the body of a lock request. The parameters are those of ``Client.lock`` and ``Client.explain``."""
    if (packages is None) == (environment is None):
        raise ValueError("give either packages or environment")
    return _without_absent(
        {
            "packages": _packages(packages, environment, environment_name, channels, "CONDA"),
            "platforms": platforms.split(",") if isinstance(platforms, str) and platforms else list(platforms),
            "virtualPackages": dict(virtual_packages or {}),
            "asOf": as_of,
            "minAge": min_age,
            "minAgeExcept": _list("min_age_except", min_age_except),
            "excludeNewer": exclude_newer,
            "refresh": refresh,
            "flexible": flexible,
            "forContainer": for_container,
            "format": format,
        }
    )


def _packages(
    entries: Sequence[str] | None,
    environment: Text | None,
    environment_name: str | None,
    channels: Sequence[str],
    kind: str,
) -> dict[str, Any]:
    return _without_absent(
        {
            "type": kind,
            "entries": _list("packages", entries or ()),
            "environment": None if environment is None else _encoded("environment", environment),
            "environmentName": environment_name,
            "channels": _list("channels", channels),
        }
    )


def _encoded(name: str, text: Text) -> str:
    """Return the text, or the file, in base64."""
    if isinstance(text, Path):
        content = text.read_bytes()
    elif not isinstance(text, str):
        raise TypeError(f"{name} must be the text (str) or the file (pathlib.Path), not {type(text).__name__}")
    elif "\n" not in text and re.fullmatch(r"[\w./\\:~-]+", text):
        raise ValueError(f"{name} is {text!r}, which looks like a path; give pathlib.Path({text!r}) to read the file")
    else:
        content = text.encode()
    if not content.strip():
        raise ValueError(f"{name} is empty")
    if len(content) > MAX_TEXT:
        raise ValueError(f"{name} has {len(content):,} bytes; the limit is {MAX_TEXT:,}")
    return base64.b64encode(content).decode()


def _list(name: str, values: Iterable[str]) -> list[str]:
    """Return a list of strings. One string instead of a list would be a list of its letters."""
    if isinstance(values, str):
        raise TypeError(f"{name} must be a list, such as [{values!r}], not a string")
    out = list(values)
    for value in out:
        if not isinstance(value, str):
            raise TypeError(f"{name} must be a list of strings, and has {value!r}")
    return out


def _variables(env: Mapping[str, str] | None) -> list[str]:
    if not isinstance(env, Mapping | None):
        raise TypeError(f'env must be a mapping, such as {{"NAME": "value"}}, not {type(env).__name__}')
    return [f"{name}={value}" for name, value in (env or {}).items()]


def _layers(sources: Sequence[Files]) -> list[dict[str, Any]]:
    if isinstance(sources, str | os.PathLike | Layer):
        raise TypeError(f"layers must be a list, such as [{sources!r}]")
    return [(s if isinstance(s, Layer) else pack(_path(s))).to_json() for s in sources]


def _context(source: Files, dockerfile: Text | None) -> Layer:
    """Return a build context, without the files that a .dockerignore file excludes."""
    if isinstance(source, Layer):
        return source
    path = _path(source)
    if not path.is_dir():
        return pack(path)
    return pack(path, read_ignored(dockerfile if isinstance(dockerfile, Path) else None, path))


def _path(source: str | os.PathLike[str]) -> Path:
    path = os.fspath(source)
    if path.startswith(("http://", "https://")):
        raise ValueError(f"for a layer at a URL, give slipway.Layer({path!r}, …) with its digests and size")
    return Path(path)


def _compression(text: str) -> dict[str, Any]:
    m = re.fullmatch(r"(gzip|zstd|estargz|zstd:chunked|erofs|erofs\+zstd)(?::(\d{1,2}))?(,force)?", text)
    if m is None:
        modes = '"gzip", "zstd", "estargz", "zstd:chunked", "erofs" or "erofs+zstd"'
        raise ValueError(f'compression must be {modes}, such as "zstd:19" or "zstd,force", not {text!r}')
    return _without_absent({"mode": m[1], "level": int(m[2]) if m[2] else None, "force": bool(m[3])})


def _without_absent(members: dict[str, Any]) -> dict[str, Any]:
    """Return the members that are set; the contract treats the others as absent."""
    return {k: v for k, v in members.items() if v is not None and v is not False and v not in ("", [], {}, ())}
