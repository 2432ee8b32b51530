"""Layers and build contexts of local files."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from slipway import LeftOutWarning, SecretWarning
from slipway._ignore import Ignored, read_ignored
from slipway._layer import MAX_CONTENT, Layer, pack


def entries(layer: Layer) -> dict[str, tarfile.TarInfo]:
    content = base64.b64decode(layer.location.removeprefix("data:"))
    tar = gzip.decompress(content)
    assert layer.gzip_digest == "sha256:" + hashlib.sha256(content).hexdigest()
    assert layer.tar_digest == "sha256:" + hashlib.sha256(tar).hexdigest()
    assert layer.gzip_size == len(content)
    with tarfile.open(fileobj=io.BytesIO(tar)) as t:
        names = t.getnames()
        assert len(names) == len(set(names))
        return {m.name: m for m in t.getmembers()}


def tree(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return root


def test_a_folder(tmp_path: Path) -> None:
    root = tree(tmp_path / "one", "b/c.txt", "a", "é-" + "x" * 200)
    (root / "a").chmod(0o755)
    (root / "link").symlink_to("a")
    os.link(root / "a", root / "hard")
    (root / "empty").mkdir()
    got = entries(pack(root))
    assert list(got) == ["a", "b", "b/c.txt", "empty", "hard", "link", "é-" + "x" * 200]
    assert (got["a"].mode, got["a"].mtime, got["a"].uid, got["a"].uname) == (0o755, 0, 0, "")
    assert (got["link"].linkname, got["hard"].isreg(), got["b"].isdir()) == ("a", True, True)
    other = tree(tmp_path / "two", "é-" + "x" * 200, "b/c.txt", "a")
    os.utime(other / "a", (1, 1))
    (other / "a").chmod(0o755)
    (other / "link").symlink_to("a")
    (other / "hard").write_text("a")
    (other / "hard").chmod(0o755)
    (other / "empty").mkdir()
    assert pack(root) == pack(other)


def test_an_archive(tmp_path: Path) -> None:
    layer = pack(tree(tmp_path / "in", "a"))
    file = tmp_path / "l.tar.gz"
    file.write_bytes(base64.b64decode(layer.location.removeprefix("data:")))
    assert pack(file) == layer
    for content in (b"", b"no archive", file.read_bytes()[:-9]):
        file.write_bytes(content)
        with pytest.raises(ValueError, match=r"neither a directory nor a tar\.gz file"):
            pack(file)


def test_the_bound(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(os.urandom(MAX_CONTENT + 1))
    for source in (tmp_path, tmp_path / "big"):
        with pytest.raises(ValueError, match="the most that a request can hold; host it"):
            pack(source)
    with pytest.raises(FileNotFoundError):
        pack(tmp_path / "missing")


def test_what_is_left_out(tmp_path: Path) -> None:
    root = tree(tmp_path, "a", "data/.slipway-data", "data/master-key", "old/slipway.db", "old/lock")
    os.mkfifo(root / "pipe")
    with pytest.warns(LeftOutWarning, match=r"data \(the data folder of a slipwayd.*old \(.*pipe \(a socket, pipe or device\)"):
        assert list(entries(pack(root))) == ["a"]
    with pytest.raises(ValueError, match="data folder of a slipwayd"):
        pack(root / "data")


def test_secrets_are_reported(tmp_path: Path) -> None:
    root = tree(tmp_path, "id_rsa", ".aws/credentials", ".env.local", ".env.example", "a.pem", "x.p12", "notes")
    (root / "b.key").write_text("-----BEGIN PRIVATE KEY-----")
    with pytest.warns(SecretWarning) as warned:
        pack(root)
    text = str(warned[0].message)
    assert all(name in text for name in ("id_rsa", ".aws/credentials", ".env.local", "b.key", "x.p12"))
    assert not any(name in text for name in ("example", "a.pem", "notes"))


def test_ignored_files(tmp_path: Path) -> None:
    root = tree(tmp_path, "keep", "out/a", "out/in/b", "out/in/c", "out/z/d", "x.log")
    names = list(entries(pack(root, Ignored("out\n!out/in\n!out/z/d\n*.log"))))
    assert names == ["keep", "out", "out/in", "out/in/b", "out/in/c", "out/z", "out/z/d"]
    (root / ".dockerignore").write_text("keep")
    (root / "Dockerfile").write_text("FROM x")
    assert read_ignored(root / "Dockerfile", root).has("keep")
    (root / "Dockerfile.dockerignore").write_text("other")
    assert not read_ignored(root / "Dockerfile", root).has("keep")
    (root / "Dockerfile.dockerignore").write_text("[b-a]")
    with pytest.raises(ValueError, match=r"Dockerfile.dockerignore: line 1 is not a valid pattern"):
        read_ignored(root / "Dockerfile", root)


# The same table as that of the command line, services/cmd/slipway/internal/layer.
@pytest.mark.parametrize(
    ("text", "path", "want"),
    [
        ("*/temp*", "somedir/temporary.txt", True), ("*/temp*", "temp", False), ("*/temp*", "a/b/temp", False),
        ("*/*/temp*", "a/b/temporary", True), ("temp?", "tempa", True), ("temp?", "temp", False), ("temp?", "temp/", False),
        ("**/*.go", "a.go", True), ("**/*.go", "a/b/c.go", True), ("**", "a/b", True), ("a/**", "a/b/c", True), ("a/**", "a", False),
        ("a/**/z", "a/z", True), ("/foo/bar/", "foo/bar/baz", True), ("./foo", "foo", True), ("foo", "foobar", False),
        ("foo", "x/foo", False), ("a.c", "abc", False), ("*.md\n!README*.md\nREADME-secret.md", "README-secret.md", True),
        ("*.md\n!README*.md\nREADME-secret.md", "README-x.md", False), ("*.md\nREADME-secret.md\n!README*.md", "README-secret.md", False),
        ("dir\n!dir/keep", "dir/keep/x", False), ("dir\n!dir/keep", "dir/other", True), ("[ab]c", "bc", True), ("[^ab]c", "bc", False),
        ("[a-c-]x", "-x", True), ("[a-c-]x", "bx", True), ("[--a]x", "Ax", True), ("[+--]x", ",x", True), ("[&&]x", "&x", True),
        ("[^ab]c", "xc", True), (r"\*", "*", True), (r"\*", "x", False), ("é*", "éa", True), ("#x", "#x", False), (" # x", "# x", True),
        ("\ufeffa", "a", True), ("!", "a", False), (".", "a", False), ("/", "a", False),
    ],
)  # fmt: skip
def test_patterns(text: str, path: str, want: bool) -> None:
    assert Ignored(text).has(path) == want
