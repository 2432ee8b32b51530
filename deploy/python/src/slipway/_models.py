"""Results of calls: the schemas of the server's OpenAPI document as frozen dataclasses.

An absent string is empty, an absent list or mapping is empty, and another absent value is None. Members that this version
does not know are ignored. The tests compare these classes with the document.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


def _json(name: str) -> dict[str, Any]:
    """Return the metadata of a field whose name in JSON is not its own in camel case."""
    return {"json": name}


def _no_counts() -> Mapping[str, int]:
    return {}


def _none() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True)
class LockedPackage:
    """A package of a lock, with the URL and the digests of its artifact. ``size`` is in bytes."""

    name: str = ""
    version: str = ""
    build: str = ""
    channel: str = ""
    subdir: str = ""
    file_name: str = ""
    url: str = ""
    sha256: str = ""
    md5: str = ""
    size: int = 0
    license: str = ""


@dataclass(frozen=True)
class PackageChange:
    """A package that differs between two locks; ``old`` or ``new`` is None if a lock does not have it."""

    name: str = ""
    kind: str = ""
    change: str = ""
    differs: tuple[str, ...] = ()
    old: LockedPackage | None = None
    new: LockedPackage | None = None


@dataclass(frozen=True)
class PlatformLock:
    """The packages of an environment for one platform, dependencies first.

    ``size`` is the total download size, and ``missing_bytes`` the size of the packages that the server does not have
    as layers, both in bytes.
    """

    platform: str = ""
    packages: tuple[LockedPackage, ...] = ()
    size: int = 0
    known_layers: int | None = None
    missing_bytes: int | None = None
    virtual_packages: Mapping[str, str] = field(default_factory=_none)
    snapshots: Mapping[str, str] = field(default_factory=_none)
    outdated: Mapping[str, str] = field(default_factory=_none)
    as_of: str = ""
    exclude_newer: str = ""
    history_since: str = ""
    changes: tuple[PackageChange, ...] = ()


@dataclass(frozen=True)
class EnvironmentIndex:
    """The index of the files of an environment. ``size`` is in bytes."""

    digest: str = ""
    size: int = 0
    media_type: str = ""


@dataclass(frozen=True)
class EnvironmentPackage:
    """The files of a package of an environment. ``size`` is in bytes."""

    name: str = ""
    digest: str = ""
    size: int = 0


@dataclass(frozen=True)
class Environment:
    """The mounted environment of a lock. ``digest``, ``index`` and ``packages`` are absent while it is being made."""

    lock_digest: str = ""
    status: str = ""
    build_id: str = ""
    platform: str = ""
    digest: str = ""
    index: EnvironmentIndex | None = None
    packages: tuple[EnvironmentPackage, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether the environment exists."""
        return self.status == "COMPLETED"


@dataclass(frozen=True)
class Reason:
    """A step of the explanation of a conflict, with the steps that cause it."""

    kind: str = ""
    package: str = ""
    spec: str = ""
    text: str = ""
    because: tuple[Reason, ...] = ()


@dataclass(frozen=True)
class MissingPackage:
    """A name that no channel of the request has, with similar names, and other channels and platforms that have it."""

    name: str = ""
    nearest: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()


@dataclass(frozen=True)
class Conflict:
    """Why there is no environment with the requested packages."""

    summary: str = ""
    specs: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()
    missing: tuple[MissingPackage, ...] = ()


@dataclass(frozen=True)
class Suggestion:
    """A change for which a solution was found: the requested packages with the change, and channels if one is added."""

    change: str = ""
    packages: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Explanation:
    """The solution for packages, or why there is none.

    ``locks`` has one lock for each platform if there is a solution; otherwise ``conflict`` and ``suggestions`` are set.
    """

    locks: tuple[PlatformLock, ...] = ()
    notes: tuple[str, ...] = ()
    message: str = ""
    conflict: Conflict | None = None
    suggestions: tuple[Suggestion, ...] = ()
    text: str = ""
    code: str = ""

    @property
    def solvable(self) -> bool:
        """Whether there is an environment with the packages."""
        return self.conflict is None


@dataclass(frozen=True)
class FoundPackage:
    """A package that a search found. ``version`` is the newest; ``platforms`` are folders of the channel."""

    name: str = ""
    version: str = ""
    channel: str = ""
    license: str = ""
    platforms: tuple[str, ...] = ()
    dependents: int = 0
    summary: str = ""
    home: str = ""
    versions: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class SearchResult:
    """The packages that a search found, best first, and the total number of results."""

    packages: tuple[FoundPackage, ...] = ()
    total: int = 0


@dataclass(frozen=True)
class ContainerStatus:
    """The state of a container request.

    ``status`` is ``"PENDING"``, ``"BUILDING"``, ``"SCANNING"`` or ``"DONE"``; ``succeeded`` is None until it is
    ``"DONE"``. ``expected_start`` and ``expected_end`` are estimates in seconds from now, ``position`` is the place in
    the queue, and ``duration`` is nanoseconds as a string. ``mirror_id`` is the ``build_id`` of a mirror.
    ``vulnerabilities`` is the number of known vulnerabilities by severity, such as ``"HIGH"``, once a requested scan has
    ended.
    """

    id: str = ""
    status: str = ""
    succeeded: bool | None = None
    build_id: str = ""
    mirror_id: str = ""
    target_image: str = ""
    reason: str = ""
    reason_code: str = ""
    message: str = ""
    details_uri: str = ""
    creation_time: datetime | None = None
    duration: str = ""
    position: int | None = None
    expected_start: float | None = None
    expected_end: float | None = None
    scan_id: str = ""
    vulnerabilities: Mapping[str, int] = field(default_factory=_no_counts)


@dataclass(frozen=True)
class Compression:
    """How the layers of a build are compressed: gzip, zstd, estargz, zstd:chunked, erofs or erofs+zstd."""

    mode: str = ""
    level: int | None = None
    force: bool | None = None


@dataclass(frozen=True)
class CondaOptions:
    """How an image of Conda packages is built."""

    base_image: str = ""
    mamba_image: str = ""
    base_packages: str | None = None
    commands: tuple[str, ...] = ()
    compile: bool | None = None


@dataclass(frozen=True)
class Build:
    """The record of a build. ``digest`` is that of the image, once it was pushed; ``duration`` is in seconds.

    ``environment`` is the digest of the artifact of a mounted environment; ``digest`` if there is no image.
    """

    build_id: str = ""
    status: str = ""
    succeeded: bool | None = None
    digest: str = ""
    environment: str = ""
    target_image: str = ""
    served: bool | None = None
    platform: str = ""
    start_time: datetime | None = None
    duration: float | None = None
    reason: str = ""
    reason_code: str = ""
    message: str = ""
    container_file: str = ""
    conda_file: str = ""
    conda_opts: CondaOptions | None = None
    context_size: int | None = None
    content_digest: str = ""
    build_compression: Compression | None = None
    user_id: int | None = None


@dataclass(frozen=True)
class Platform:
    """A platform of an image, e.g. os ``"linux"`` and architecture ``"arm64"``."""

    architecture: str = ""
    os: str = ""
    variant: str = ""
    os_version: str = field(default="", metadata=_json("os.version"))
    os_features: tuple[str, ...] = field(default=(), metadata=_json("os.features"))


@dataclass(frozen=True)
class Descriptor:
    """A reference to a manifest, config or layer. ``size`` is in bytes."""

    media_type: str = ""
    digest: str = ""
    size: int = 0
    artifact_type: str = ""
    annotations: Mapping[str, str] = field(default_factory=_none)
    platform: Platform | None = None


@dataclass(frozen=True)
class RuntimeConfig:
    """The defaults for containers of an image."""

    env: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    working_dir: str = ""
    user: str = ""
    labels: Mapping[str, str] = field(default_factory=_none)
    image: str = ""
    host_name: str = ""
    domain_name: str = ""
    tty: bool | None = None
    attach_stdin: bool | None = None
    attach_stdout: bool | None = None
    attach_stderr: bool | None = None


@dataclass(frozen=True)
class HistoryEntry:
    """A build step of an image, as its config states it."""

    created: str = ""
    created_by: str = field(default="", metadata=_json("created_by"))
    author: str = ""
    comment: str = ""
    empty_layer: bool | None = field(default=None, metadata=_json("empty_layer"))


@dataclass(frozen=True)
class RootFS:
    """The uncompressed layers of an image, lowest first."""

    type: str = ""
    diff_ids: tuple[str, ...] = field(default=(), metadata=_json("diff_ids"))


@dataclass(frozen=True)
class ImageConfig:
    """The config of an image."""

    architecture: str = ""
    created: str = ""
    container: str = ""
    config: RuntimeConfig = RuntimeConfig()
    rootfs: RootFS = RootFS()
    history: tuple[HistoryEntry, ...] = ()


@dataclass(frozen=True)
class ImageManifest:
    """The manifest of an image; ``layers`` are lowest first."""

    schema_version: int = 0
    media_type: str = ""
    config: Descriptor = Descriptor()
    layers: tuple[Descriptor, ...] = ()


@dataclass(frozen=True)
class ContainerInspection:
    """The image for one platform."""

    registry: str = ""
    host_name: str = ""
    image_name: str = ""
    reference: str = ""
    digest: str = ""
    config: ImageConfig = ImageConfig()
    manifest: ImageManifest = ImageManifest()
    v1: bool | None = None
    v2: bool | None = None
    oci: bool | None = None


@dataclass(frozen=True)
class IndexInspection:
    """The index of a multi-platform image."""

    schema_version: int = 0
    media_type: str = ""
    digest: str = ""
    manifests: tuple[Descriptor, ...] = ()


@dataclass(frozen=True)
class Inspection:
    """An image: ``container`` for one platform and, if it is a multi-platform image, ``index``."""

    container: ContainerInspection | None = None
    index: IndexInspection | None = None
    referrers: tuple[Descriptor, ...] = ()


@dataclass(frozen=True)
class Submitted:
    """The response to a container request, with the secret parts ``container_token`` and ``target_image``."""

    target_image: str = field(default="", repr=False)
    container_token: str = field(default="", repr=False)
    request_id: str = ""
    build_id: str = ""
    container_image: str = field(default="", repr=False)
    expiration: datetime | None = None
    cached: bool | None = None
    succeeded: bool | None = None
    freeze: bool | None = None
    mirror: bool | None = None
    message: str = ""
    scan_id: str = ""
    kept_id: str = ""


@dataclass(frozen=True)
class Event:
    """An event of a build: a ``"phase"`` that begins, such as ``fetch`` or ``push``, or a line of the ``"log"``."""

    kind: str
    text: str
