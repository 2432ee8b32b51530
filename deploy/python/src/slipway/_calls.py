"""The calls of the REST API as flows. Their parameters and docstrings are those of the methods of both clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from slipway import _request
from slipway._errors import BuildError, SlipwayError, UnreachableError, UnsolvableError, WaitTimeoutError
from slipway._events import EventParser
from slipway._flow import (
    Deadline,
    Flow,
    Open,
    Read,
    Request,
    Response,
    Sleep,
    decoded,
    fetch,
    lost,
    path,
    refusal,
    send,
    work,
)
from slipway._models import Build, ContainerStatus, Environment, Event, Explanation, Inspection, SearchResult, Submitted
from slipway._request import Files, LockFormat, Text
from slipway._settings import Settings

# A silent event stream is considered broken after this time in seconds; the server sends a comment every 15 seconds.
_SILENCE = 45.0


def container(
    settings: Settings,
    packages: Sequence[str] | None = None,
    *,
    environment: Text | None = None,
    environment_name: str | None = None,
    channels: Sequence[str] = (),
    r_packages: bool = False,
    base_image: str | None = None,
    base_packages: str | None = None,
    commands: Sequence[str] = (),
    compile_python: bool = False,
    as_of: str | None = None,
    min_age: str | None = None,
    min_age_except: Sequence[str] = (),
    refresh: bool = False,
    image: str | None = None,
    dockerfile: Text | None = None,
    context: Files | None = None,
    layers: Sequence[Files] = (),
    includes: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    entrypoint: Sequence[str] = (),
    cmd: Sequence[str] = (),
    workdir: str | None = None,
    platforms: str | Sequence[str] = (),
    freeze: str | None = None,
    keep: bool = False,
    cache_repository: str | None = None,
    singularity: bool = False,
    mounted: bool = False,
    soci: bool = False,
    soci_prefetch: Sequence[str] = (),
    compression: str | None = None,
    name_strategy: str | None = None,
    dry_run: bool = False,
) -> Flow[Submitted]:
    """Request a container, and return it immediately: its name can be pulled, and a pull waits for the build.

    The source is exactly one of ``packages``, ``environment``, ``image`` and ``dockerfile``. A string is the text of a
    file; ``pathlib.Path`` reads the file.

    Args:
        packages: Conda packages, such as ``"samtools=1.20"``, ``"conda-forge::jq"`` or ``"pip:NAME"``.
        environment: A Conda environment file, a pixi.toml, or a lock (an ``@EXPLICIT`` list, a conda-lock.yml or a
            pixi.lock), whose packages are used as they are.
        environment_name: One of the environments of a pixi.toml or lock.
        channels: Conda channels, highest priority first. Default: conda-forge and bioconda.
        r_packages: Whether ``packages`` are R packages, or ``environment`` is an renv.lock.
        base_image: The image that Conda packages are put into.
        base_packages: The packages that every environment gets, separated by spaces; ``""`` for none.
        commands: Dockerfile lines to run after the Conda packages are installed.
        compile_python: Whether to compile Python modules, so that they load faster.
        as_of: A date or time, such as ``"2026-03-01"``: use the channels as they were then.
        min_age: Ignore packages that are newer than this age, such as ``"7d"``.
        min_age_except: Names of packages to which ``min_age`` does not apply.
        refresh: Whether to solve the packages again, although a solution is cached.
        image: An existing image, to which layers or a configuration are added.
        dockerfile: A Dockerfile, or a Singularity definition.
        context: The files that the Dockerfile, or ``commands``, may COPY: a directory or a tar.gz file. A .dockerignore
            file is honoured.
        layers: Layers to add, lowest first: directories or tar.gz files, or ``slipway.Layer`` for a layer at a URL.
        includes: Images whose layers are added on top.
        env: Environment variables.
        entrypoint: The program to run, instead of the image's.
        cmd: The default arguments, instead of the image's.
        workdir: The working directory, instead of the image's.
        platforms: ``"linux/amd64"`` (the default), ``"linux/arm64"`` or, for builds, a list of both.
        freeze: The repository to push the image to, with your own credentials. Its name is then permanent.
        keep: Whether to give an image of Conda packages a public name that does not expire. Everyone can see its packages.
        cache_repository: The repository to cache the layers of builds in.
        singularity: Whether to create a Singularity image; its name is then for ``oras://``.
        mounted: Whether to create an environment that ``slipway run`` mounts, instead of an image. Only for packages or an
            environment.
        soci: Whether to add a SOCI index to an image that is built or frozen, so that engines with the SOCI snapshotter
            start it before it is downloaded.
        soci_prefetch: Absolute paths of the files that the snapshotter fetches first. Only with ``soci``.
        compression: The compression of built layers, such as ``"zstd:19"``; with ``",force"`` also of base images.
        name_strategy: ``"none"``, ``"tagPrefix"`` (the default) or ``"imageSuffix"``.
        dry_run: Whether to only return the response, and build nothing.

    Raises:
        UnsolvableError: There is no environment with the packages.
        SlipwayError: The server rejects the request, or cannot be reached.
        ValueError: Arguments exclude each other, or a file is too large; TypeError for an argument of a wrong type.

    Example:
        >>> slipway.container(["samtools=1.20", "bwa"]).wait().name
        'localhost:9090/wt/…/bwa-0.7.18_samtools-1.20--…'
        >>> slipway.container(dockerfile=Path("Dockerfile"), context=".", freeze="registry.example.org/me/tools")
    """
    arguments = {k: v for k, v in locals().items() if k not in ("settings", "packages")}
    body = yield from work(lambda: _request.container_body(packages, **arguments))
    yield from _into_workspace(settings, body)
    return (yield from _submitted(settings, Request("POST", "/v1alpha2/container", body=body)))


def _submitted(settings: Settings, request: Request) -> Flow[Submitted]:
    response = yield from fetch(settings, request, Submitted)
    if not response.target_image:
        raise SlipwayError(f"The response of {settings.server} has no image name; check the server's URL")
    return response


def lock(
    settings: Settings,
    packages: Sequence[str] | None = None,
    *,
    format: LockFormat = "explicit",
    environment: Text | None = None,
    environment_name: str | None = None,
    channels: Sequence[str] = (),
    platforms: str | Sequence[str] = (),
    virtual_packages: Mapping[str, str] | None = None,
    as_of: str | None = None,
    min_age: str | None = None,
    min_age_except: Sequence[str] = (),
    exclude_newer: str | None = None,
    refresh: bool = False,
    flexible: bool = False,
    for_container: bool = False,
) -> Flow[str]:
    """Return the exact packages that Conda packages resolve to, as the text of a lock file. Nothing is built.

    Args:
        packages: Conda packages, such as ``"samtools=1.20"``.
        format: ``"explicit"`` (for one platform, with MD5), ``"explicit-sha256"``, ``"conda-lock"`` or ``"pixi"``.
        environment: A Conda environment file, a pixi.toml or a lock, instead of packages.
        environment_name: One of the environments of a pixi.toml or lock.
        channels: Conda channels, highest priority first. Default: conda-forge and bioconda.
        platforms: ``"linux/amd64"`` (the default), ``"linux/arm64"``, or a list of both.
        virtual_packages: Properties of the machine, such as ``{"__cuda": "12.4"}``; ``""`` removes one.
        as_of: A date or time: use the channels as they were then.
        min_age: Ignore packages that are newer than this age, such as ``"7d"``.
        min_age_except: Names of packages to which ``min_age`` does not apply.
        exclude_newer: Ignore packages that were built after this time (RFC 3339).
        refresh: Whether to check the channels for changed package lists.
        flexible: Whether a package may come from a later channel if those of the first one do not fit.
        for_container: Whether to add the packages that a container of the packages gets by default.

    Raises:
        UnsolvableError: There is no environment with the packages.

    Example:
        >>> text = slipway.lock(["samtools=1.20"], format="pixi")
        >>> slipway.container(environment=text)
    """
    arguments = {k: v for k, v in locals().items() if k not in ("settings", "packages")}
    response = yield from _solve(settings, packages, arguments)
    return response.body.decode(errors="replace")


def explain(
    settings: Settings,
    packages: Sequence[str] | None = None,
    *,
    environment: Text | None = None,
    environment_name: str | None = None,
    channels: Sequence[str] = (),
    platforms: str | Sequence[str] = (),
    virtual_packages: Mapping[str, str] | None = None,
    as_of: str | None = None,
    min_age: str | None = None,
    min_age_except: Sequence[str] = (),
    exclude_newer: str | None = None,
    refresh: bool = False,
    flexible: bool = False,
    for_container: bool = False,
) -> Flow[Explanation]:
    """Return the packages that Conda packages resolve to, or why they conflict, as data. Nothing is built.

    The parameters are those of ``lock``.

    Example:
        >>> why = slipway.explain(["samtools=1.20", "htslib=1.17"])
        >>> why.solvable, why.conflict.summary, [s.change for s in why.suggestions]
    """
    arguments = {k: v for k, v in locals().items() if k not in ("settings", "packages")}
    try:
        response = yield from _solve(settings, packages, arguments | {"format": None})
    except UnsolvableError as e:
        return Explanation(message=e.message, conflict=e.conflict, suggestions=e.suggestions, code=e.code)
    return decoded(settings, response, Explanation)


def _solve(settings: Settings, packages: Sequence[str] | None, arguments: dict[str, Any]) -> Flow[Response]:
    body = yield from work(lambda: _request.lock_body(packages, **arguments))
    yield from _into_workspace(settings, body)
    return (yield from send(settings, Request("POST", "/v1alpha1/conda/lock", body=body, accept="*/*")))


def search(
    settings: Settings,
    name: str | None = None,
    *,
    command: str | None = None,
    file: str | None = None,
    license: str | None = None,
    channel: str | None = None,
    platform: str | None = None,
    max: int = 20,
) -> Flow[SearchResult]:
    """Find Conda packages by name, command or file; the best results come first.

    Args:
        name: The name of a package, or a part of it.
        command: A command, such as ``"bcftools"``, instead of a name: the packages that have it, among those that the
            server has used in images.
        file: The name of a file, or its path in the environment, instead of a name.
        license: Leave out packages whose newest version does not have this licence, an SPDX identifier such as ``"MIT"``.
        channel: The channel to search. Default: conda-forge and bioconda.
        platform: Leave out packages that have nothing for this platform.
        max: The maximum number of results, 1 to 100.

    Example:
        >>> [p.name for p in slipway.search("samtools").packages]
    """
    if [name, command, file].count(None) != 2:
        raise ValueError("give exactly one of name, command and file")
    query = {"q": name, "command": command, "file": file, "license": license, "channel": channel, "platform": platform}
    query["max"] = str(max)
    workspace = yield from _workspace(settings)
    if workspace:
        query["workspaceId"] = str(workspace)
    request = Request("GET", "/v1alpha1/conda/packages", query={k: v for k, v in query.items() if v is not None})
    return (yield from fetch(settings, request, SearchResult))


def inspect(settings: Settings, image: str, *, platform: str | None = None, referrers: bool = False) -> Flow[Inspection]:
    """Return the config and the layers of an image in a registry, which is read with your own credentials.

    Args:
        image: The image, such as ``"ubuntu:24.04"``, or a name that the server issued.
        platform: The platform of a multi-platform image. Default: linux/amd64.
        referrers: Whether to list what refers to the image, such as signatures.

    Example:
        >>> slipway.inspect("ubuntu:24.04").container.config.config.cmd
        ('/bin/bash',)
    """
    query = {"platform": platform or "", "referrers": "true" if referrers else ""}
    body: dict[str, Any] = {"containerImage": image}
    yield from _into_workspace(settings, body)
    request = Request("POST", "/v1alpha1/inspect", query={k: v for k, v in query.items() if v}, body=body)
    return (yield from fetch(settings, request, Inspection))


def status(settings: Settings, request_id: str) -> Flow[ContainerStatus]:
    """Return the state of a container request."""
    return (yield from fetch(settings, _status_request(request_id), ContainerStatus))


def _status_request(request_id: str, timeout: float | None = None) -> Request:
    return Request("GET", path("v1alpha2", "container", request_id, "status"), timeout=timeout)


def build_record(settings: Settings, build_id: str) -> Flow[Build]:
    """Return the record of a build, with the digest of its image."""
    return (yield from fetch(settings, Request("GET", path("v1alpha1", "builds", build_id)), Build))


def environment_of(settings: Settings, lock_digest: str) -> Flow[Environment]:
    """Return the mounted environment of a lock, if it exists or is being made; nothing is requested.

    Args:
        lock_digest: The SHA-256 of the lock: the annotation ``dev.slipway.conda.lock`` of the environment.

    Raises:
        SlipwayError: With the status 404, if there is none.
    """
    workspace = yield from _workspace(settings)
    query = {"workspaceId": str(workspace)} if workspace else {}
    return (yield from fetch(settings, Request("GET", path("v1alpha1", "environments", lock_digest), query=query), Environment))


def build_log(settings: Settings, build_id: str) -> Flow[str]:
    """Return the log of a build up to now. To follow it, use ``wait(on_event=…)``."""
    request = Request("GET", path("v1alpha1", "builds", build_id, "logs"), accept="text/plain")
    return (yield from send(settings, request)).body.decode(errors="replace")


def build_lock(settings: Settings, build_id: str, *, format: LockFormat = "explicit") -> Flow[str]:
    """Return the lock that a build of Conda packages was started with, as the text of a lock file."""
    request = Request("GET", path("v1alpha1", "builds", build_id, "lock"), query={"format": format}, accept="*/*")
    return (yield from send(settings, request)).body.decode(errors="replace")


def new_name(settings: Settings, id: str) -> Flow[Submitted]:
    """Return a container with a new name for the image of an earlier request, which may have expired.

    Args:
        id: The id of a request, which requires its user's access token, or of a build. Nothing is built.
    """
    return (yield from _submitted(settings, Request("POST", path("v1alpha2", "container", id, "name"))))


def revoke(settings: Settings, id: str) -> Flow[None]:
    """Revoke the name of a request, and cancel its build unless another request waits for it.

    Args:
        id: The id of the request, which requires its user's access token, or the token in its name.
    """
    # A repetition after a lost response would be 404.
    yield from send(settings, Request("DELETE", path("v1alpha2", "container", id), repeatable=False))


def container_status(settings: Settings, submitted: Submitted) -> Flow[ContainerStatus]:
    """Return the state of the request."""
    return status(settings, submitted.request_id)


def container_build_record(settings: Settings, submitted: Submitted) -> Flow[Build]:
    """Return the record of the container's build, with the digest of the image."""
    return build_record(settings, _build_of(submitted))


def container_log(settings: Settings, submitted: Submitted) -> Flow[str]:
    """Return the log of the container's build up to now. To follow it, use ``wait(on_event=…)``."""
    return build_log(settings, _build_of(submitted))


def container_lock(settings: Settings, submitted: Submitted, *, format: LockFormat = "explicit") -> Flow[str]:
    """Return the lock that the container's build was started with, as the text of a lock file."""
    return build_lock(settings, _build_of(submitted), format=format)


def container_new_name(settings: Settings, submitted: Submitted) -> Flow[Submitted]:
    """Return a container with a new name for the same image, which is valid for longer. Nothing is built."""
    return new_name(settings, submitted.container_token or submitted.request_id)


def container_revoke(settings: Settings, submitted: Submitted) -> Flow[None]:
    """Revoke the container's name, and cancel its build unless another request waits for it."""
    return revoke(settings, submitted.container_token or submitted.request_id)


def _build_of(submitted: Submitted) -> str:
    if not submitted.build_id:
        raise ValueError("The container was not built: it is an existing image with additions, and has neither log nor lock")
    return submitted.build_id


def wait(
    settings: Settings,
    submitted: Submitted,
    timeout: float | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> Flow[None]:
    """Wait until the image of a request exists."""
    if submitted.succeeded:
        return
    if submitted.build_id.endswith("_0"):
        raise ValueError("A dry run builds nothing to wait for")
    deadline = Deadline(timeout)
    followed = {""}
    build_id, pause, heard = submitted.build_id, 0.2, time.monotonic()
    while True:
        if on_event and build_id not in followed:
            followed.add(build_id)
            yield from _follow(settings, build_id, on_event, deadline)
        try:
            request = _status_request(submitted.request_id, deadline.of_request(settings.timeout))
            now = yield from fetch(settings, request, ContainerStatus)
            heard = time.monotonic()
        except SlipwayError as e:
            if not lost(e) or time.monotonic() - heard > settings.outage:
                raise
        else:
            if now.status == "DONE" and now.succeeded:
                return
            build_id = now.build_id or build_id
            if now.status == "DONE":
                reason = f"build {build_id} failed ({now.reason_code or 'unknown'}): {now.message or now.reason}"
                if now.reason_code == "scan":
                    reason = now.message or now.reason
                raise BuildError(reason, build_id, now.reason_code)
        if on_event is None or build_id in followed:
            yield from _pause(deadline, pause, build_id)
            pause = min(pause * 1.5, 3.0)


def _pause(deadline: Deadline, seconds: float, build_id: str) -> Flow[None]:
    if deadline.remaining() == 0:
        raise WaitTimeoutError(f"The build {build_id} has not ended within the timeout. It continues; call wait() again")
    yield Sleep(cast(float, deadline.within(seconds)))


def _follow(settings: Settings, build_id: str, on_event: Callable[[Event], None], deadline: Deadline) -> Flow[None]:
    """Pass each event of a build on once, across broken connections, until the build has ended."""
    parser, heard, phase = EventParser(), time.monotonic(), ""
    while True:
        try:
            request = Request(
                "GET",
                path("v1alpha1", "builds", build_id, "events"),
                accept="text/event-stream",
                last_event_id=parser.last_id,
                timeout=deadline.of_request(_SILENCE),
            )
            response = cast(Response, (yield Open(request)))
            if response.status != 200:
                raise refusal(settings, response)
            parser = EventParser(last_id=parser.last_id, retry=parser.retry)
            while (chunk := cast("bytes | None", (yield Read()))) is not None:
                heard = time.monotonic()
                for kind, data in parser.feed(chunk):
                    if kind == "done":
                        return
                    if kind == "log" or (kind == "phase" and data != phase):  # a phase is repeated after a reconnection
                        phase = data if kind == "phase" else phase
                        on_event(Event(kind, data))
                if deadline.remaining() == 0:
                    break
            else:
                raise UnreachableError("The connection ended before the build")
        except SlipwayError as e:
            if not lost(e) or time.monotonic() - heard > settings.outage:
                raise
        yield from _pause(deadline, parser.retry or 1.0, build_id)


@dataclass(frozen=True)
class _User:
    id: int = 0


@dataclass(frozen=True)
class _UserInfo:
    user: _User = _User()


@dataclass(frozen=True)
class _Workspace:
    org_name: str = ""
    workspace_id: int | None = None
    workspace_name: str = ""


@dataclass(frozen=True)
class _Workspaces:
    orgs_and_workspaces: tuple[_Workspace, ...] = ()


def _into_workspace(settings: Settings, body: dict[str, Any]) -> Flow[None]:
    """Add the workspace of the settings to a request."""
    workspace = yield from _workspace(settings)
    if workspace:
        body["platformWorkspaceId"] = workspace


def _workspace(settings: Settings) -> Flow[int]:
    """Return the id of the workspace of the settings; 0 for the personal one."""
    name = settings.workspace
    if name is None or isinstance(name, int):
        return name or 0
    if name.isascii() and name.isdigit():
        return int(name)
    if not settings.token:
        raise ValueError(f"workspace {name!r} needs an access token; give token= or SLIPWAY_TOKEN")
    user = yield from fetch(settings, Request("GET", "/api/user-info"), _UserInfo)
    request = Request("GET", path("api", "user", str(user.user.id), "workspaces"))
    for w in (yield from fetch(settings, request, _Workspaces)).orgs_and_workspaces:
        if w.workspace_id and f"{w.org_name}/{w.workspace_name}".lower() == name.lower():
            return w.workspace_id
    raise ValueError(f"you have no workspace {name}; `slipway workspaces` shows yours")
