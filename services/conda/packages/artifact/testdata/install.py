#!/usr/bin/env python3
"""Installs Conda artifacts with rattler, and writes down what came of it.

The list that it writes is testdata/rattler.json.zst, which TestRattler compares
with. Each artifact is installed by itself, with a python that has no files where
it is for any Python.

    python3 -m venv V && V/bin/pip install py-rattler==0.28.0 zstandard
    V/bin/python install.py /tmp/slipway/opt/conda OUT.json.zst ARTIFACT...
"""

import asyncio, hashlib, io, json, pathlib, shutil, sys, tarfile, tempfile, zipfile

import zstandard
from rattler import RepoDataRecord, Subdir, install

PYTHON = "3.10.13"


def members(file):
    """The tars of an artifact."""
    if file.suffix == ".bz2":
        yield tarfile.open(file)
        return
    with zipfile.ZipFile(file) as z:
        for m in z.infolist():
            if m.filename.endswith(".tar.zst"):
                raw = zstandard.ZstdDecompressor().stream_reader(z.open(m)).read()
                yield tarfile.open(fileobj=io.BytesIO(raw))


def index(file):
    for t in members(file):
        for m in t:
            if m.name.removeprefix("./") == "info/index.json":
                return json.load(t.extractfile(m))
    raise ValueError(f"{file} has no info/index.json")


def python(folder):
    """An artifact of a python without files."""
    x = {"name": "python", "version": PYTHON, "build": "0_cpython", "build_number": 0, "depends": [], "subdir": "linux-64"}
    file = folder / f"python-{PYTHON}-0_cpython.tar.bz2"
    with tarfile.open(file, "w:bz2") as t:
        for name, content in {"info/index.json": x, "info/paths.json": {"paths": [], "paths_version": 1}}.items():
            raw = json.dumps(content).encode()
            m = tarfile.TarInfo(name)
            m.size = len(raw)
            t.addfile(m, io.BytesIO(raw))
    return file


def state(path):
    s = path.lstat()
    if path.is_symlink():
        return {"link": str(path.readlink())}
    out = {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "mtime": int(s.st_mtime)}
    if s.st_mode & 0o100:
        out["x"] = True
    return out


async def installed(file, prefix, cache):
    shutil.rmtree(prefix, ignore_errors=True)
    try:
        records = [await RepoDataRecord.from_package_archive(f) for f in (python(cache), file)]
        await install(records=records, target_prefix=prefix, cache_dir=cache / "pkgs", platform=Subdir("linux-64"), show_progress=False)
    except Exception as e:  # it is a finding, too
        return {"error": str(e)}
    paths = {}
    for p in sorted(prefix.rglob("*")):
        name = str(p.relative_to(prefix))
        if (p.is_symlink() or not p.is_dir()) and not name.startswith("conda-meta/"):
            paths[name] = state(p)
    x = index(file)
    meta = json.loads((prefix / f"conda-meta/{x['name']}-{x['version']}-{x['build']}.json").read_text())
    return {"files": paths, "listed": meta["files"], "paths_data": meta["paths_data"]["paths"]}


async def main(prefix, out, files):
    result = {}
    for f in map(pathlib.Path, files):
        with tempfile.TemporaryDirectory() as cache:
            result[f.name] = await installed(f, pathlib.Path(prefix), pathlib.Path(cache))
        print(f.name, result[f.name].get("error", len(result[f.name].get("files", []))), file=sys.stderr)
    raw = json.dumps({"prefix": prefix, "python": PYTHON, "packages": result}, sort_keys=True, separators=(",", ":")).encode()
    pathlib.Path(out).write_bytes(zstandard.ZstdCompressor(level=19).compress(raw))


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
