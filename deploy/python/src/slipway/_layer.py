"""Layers and build contexts of local files."""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
import stat
import tarfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol

from slipway._ignore import Ignored

# A location has at most 14,000,000 characters (gateway/contract/container-service.md#container-request).
MAX_CONTENT = (14_000_000 - len("data:")) // 4 * 3
# How many files a warning lists by name.
_LISTED = 20

_SECRET_NAMES = (
    *(".env", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk"),
    *(".netrc", "_netrc", ".pgpass", ".git-credentials", ".pypirc", ".dockercfg", ".htpasswd"),
    *(
        ".docker/config.json",
        ".aws/credentials",
        ".azure/accesstokens.json",
        ".config/gcloud/application_default_credentials.json",
    ),
    *(".kube/config", "kubeconfig", "credentials", "credentials.json", "admin-token", "master-key"),
)
_HARMLESS = (".example", ".sample", ".template", ".dist")
_KEY_STORES = (".p12", ".pfx", ".jks", ".keystore", ".kubeconfig")


class SecretWarning(UserWarning):
    """Files that look like secrets are sent to the server, as part of a layer or a build context."""


class LeftOutWarning(UserWarning):
    """Files are not packed, because no layer can hold them or because they are a server's keys."""


@dataclass(frozen=True)
class Layer:
    """A layer at an http(s) URL, which the server reads with each pull, or in the request (``data:`` and base64).

    The digests, ``sha256:`` and 64 hex digits, are those of the gzip-compressed and of the uncompressed tar;
    ``gzip_size`` is the length of the former in bytes.
    """

    location: str
    gzip_digest: str
    tar_digest: str
    gzip_size: int

    def to_json(self) -> dict[str, Any]:
        """Return the layer as in a container request."""
        return {
            "location": self.location,
            "gzipDigest": self.gzip_digest,
            "tarDigest": self.tar_digest,
            "gzipSize": self.gzip_size,
        }


def pack(source: Path, ignored: Ignored | None = None) -> Layer:
    """Return a directory, or a tar.gz file, as a layer that is sent with the request.

    The layer only depends on the paths, modes, links and contents of the files; owners and times are not kept. Files that
    are left out, and files that look like secrets, are reported as warnings.

    Raises:
        ValueError: It is too large, is not a tar.gz file, or is the data folder of a server.
        OSError: A file cannot be read.
    """
    out = _Content(source)
    tar = hashlib.sha256()
    if source.is_dir():
        with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=9, mtime=0, filename="") as zipped:
            _Packing(source, ignored or Ignored()).write(_Tee(zipped, tar))
    else:
        with source.open("rb") as f:
            while chunk := f.read(1 << 20):
                out.write(chunk)
        out.seek(0)
        try:
            with gzip.GzipFile(fileobj=out, mode="rb") as unzipped:
                while chunk := unzipped.read(1 << 20):
                    tar.update(chunk)
            if not out.tell():
                raise ValueError("it is empty")
        except (OSError, EOFError, ValueError) as e:
            raise ValueError(f"{source} is neither a directory nor a tar.gz file: {e}") from None
    content = out.getvalue()
    return Layer(
        location="data:" + base64.b64encode(content).decode(),
        gzip_digest="sha256:" + hashlib.sha256(content).hexdigest(),
        tar_digest="sha256:" + tar.hexdigest(),
        gzip_size=len(content),
    )


class _Content(BytesIO):
    """The compressed layer. A write that exceeds what a request can hold raises ValueError."""

    def __init__(self, source: Path) -> None:
        super().__init__()
        self._source = source

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > MAX_CONTENT:
            raise ValueError(
                f"{self._source} is larger than {MAX_CONTENT:,} bytes compressed, the most that a request can hold; "
                "host it as a tar.gz file and give slipway.Layer with its http(s) URL and digests"
            )
        return super().write(data)


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...


class _Tee:
    """A file that tarfile writes to: it compresses and hashes."""

    def __init__(self, to: gzip.GzipFile, digest: _Hash) -> None:
        self._to, self._digest = to, digest

    def write(self, data: bytes, /) -> int:
        self._digest.update(data)
        return self._to.write(data)


class _Packing:
    def __init__(self, root: Path, ignored: Ignored) -> None:
        self._root, self._ignored = root, ignored
        self._held: list[str] = []  # excluded folders that may contain included files
        self._left_out: list[str] = []
        self._secrets: list[str] = []

    def write(self, out: _Tee) -> None:
        if _is_data_folder(self._root):
            raise ValueError(f"{self._root} is the data folder of a slipwayd, with its keys; give another directory")
        # The directory itself has no entry, so that it does not change the root of an image.
        with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:  # type: ignore[call-overload]
            for name in self._walk(""):
                self._add(tar, name)
        if self._left_out:
            warnings.warn(f"Left out of {self._root}: {_listed(self._left_out)}", LeftOutWarning, stacklevel=2)
        if self._secrets:
            warnings.warn(
                f"These files of {self._root} look like secrets, and are sent to the server: {_listed(self._secrets)}. "
                "List them in a .dockerignore file, or move them, if an image must not contain them",
                SecretWarning,
                stacklevel=2,
            )

    def _walk(self, folder: str) -> Iterator[str]:
        """Yield the paths to pack, each after its parents, in the order of their names."""
        for entry in sorted(os.scandir(self._root / folder), key=lambda e: e.name):
            name = f"{folder}/{entry.name}" if folder else entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if self._ignored.has(name):
                if is_folder and self._ignored.has_exceptions:
                    self._held.append(name)
                    yield from self._walk(name)
                continue
            if is_folder and _is_data_folder(self._root / name):
                self._left_out.append(f"{name} (the data folder of a slipwayd, with its keys)")
                continue
            if not is_folder and not entry.is_file(follow_symlinks=False) and not entry.is_symlink():
                self._left_out.append(f"{name} (a socket, pipe or device)")
                continue
            yield from (held for held in self._held if name.startswith(held + "/"))
            self._held.clear()  # they are packed, or not parents of later files
            yield name
            if is_folder:
                yield from self._walk(name)

    def _add(self, tar: tarfile.TarFile, name: str) -> None:
        path = self._root / name
        status = path.lstat()
        info = tarfile.TarInfo(name)
        info.mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISDIR(status.st_mode):
            info.type = tarfile.DIRTYPE
            tar.addfile(info)
        elif stat.S_ISLNK(status.st_mode):
            info.type, info.linkname = tarfile.SYMTYPE, os.readlink(path)
            tar.addfile(info)
        else:
            if _looks_secret(self._root, name):
                self._secrets.append(name)
            with path.open("rb") as f:
                info.size = os.fstat(f.fileno()).st_size
                tar.addfile(info, f)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def _is_data_folder(folder: Path) -> bool:
    def has(name: str) -> bool:
        return (folder / name).exists()

    return has(".slipway-data") or (has("slipway.db") and (has("master-key") or has("admin-token") or has("lock")))


def _looks_secret(root: Path, name: str) -> bool:
    lower = name.lower()
    base = lower.rpartition("/")[2]
    if base.endswith(_HARMLESS):
        return False
    if any(("/" + lower).endswith("/" + secret) for secret in _SECRET_NAMES) or base.endswith(_KEY_STORES):
        return True
    if base.endswith((".pem", ".key")):  # which may only have certificates
        with (root / name).open("rb") as f:
            return b"PRIVATE KEY-----" in f.read(64 << 10)
    return base.startswith(".env.")
