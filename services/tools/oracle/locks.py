"""Writes locks of the artifacts in our test data with py-rattler and conda-lock.

    locks.py pixi ARTIFACTS > pixi.lock         (py-rattler 0.28.0)
    locks.py conda-lock ARTIFACTS > conda-lock.yml    (conda-lock 4.0.3)

The channel of both is https://channel.example/lab, with linux-64 and linux-aarch64; tests
replace its URL by their own. The environment "default" is libcurl with its dependencies;
"test" also has libffi.
"""

import hashlib
import pathlib
import sys
import tempfile

CHANNEL = "https://channel.example/lab"
PACKAGES = {
    "libzlib-1.2.13-h31becfc_5.conda": [],
    "c-ares-1.21.0-h31becfc_0.conda": [],
    "libcurl-8.4.0-h4e8248e_0.conda": ["libzlib >=1.2.13,<1.3", "c-ares"],
    "libffi-3.4.2-h3557bc0_5.tar.bz2": [],
}
ENVIRONMENTS = {"default": list(PACKAGES)[:3], "test": list(PACKAGES)}
PLATFORMS = ["linux-64", "linux-aarch64"]


def parts(file):
    stem = file.removesuffix(".conda").removesuffix(".tar.bz2")
    name, version, build = stem.rsplit("-", 2)
    return name, version, build


def pixi(root):
    import rattler
    from rattler.lock import LockChannel, LockFile, LockPlatform

    lock = LockFile([LockPlatform(p) for p in PLATFORMS])
    for environment, files in ENVIRONMENTS.items():
        lock.set_channels(environment, [LockChannel(CHANNEL + "/")])
        for platform in PLATFORMS:
            for file in files:
                name, version, build = parts(file)
                raw = (root / file).read_bytes()
                package = rattler.PackageRecord(
                    name=name, version=version, build=rattler.BuildString(build), build_number=int(build.rsplit("_", 1)[1]), subdir=platform,
                    depends=PACKAGES[file], sha256=hashlib.sha256(raw).digest(), md5=hashlib.md5(raw).digest(), size=len(raw),
                )
                record = rattler.RepoDataRecord(package, file, f"{CHANNEL}/{platform}/{file}", CHANNEL)
                lock.add_conda_package(environment, LockPlatform(platform), record)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "pixi.lock"
        lock.to_path(path)
        return path.read_text()


def conda_lock(root):
    from conda_lock.lockfile import write_conda_lock_file
    from conda_lock.lockfile.v2prelim.models import LockedDependency, Lockfile
    from conda_lock.lockfile.v1.models import HashModel, LockMeta
    from conda_lock.models.channel import Channel

    packages = []
    for platform in PLATFORMS:
        for file, needs in PACKAGES.items():
            name, version, build = parts(file)
            raw = (root / file).read_bytes()
            packages.append(LockedDependency(
                name=name, version=version, manager="conda", platform=platform, build=build,
                dependencies={n.partition(" ")[0]: n.partition(" ")[2] for n in needs},
                url=f"{CHANNEL}/{platform}/{file}", hash=HashModel(md5=hashlib.md5(raw).hexdigest(), sha256=hashlib.sha256(raw).hexdigest()),
                categories={"main"} if file in ENVIRONMENTS["default"] else {"test"},
            ))
    lock = Lockfile(package=packages, metadata=LockMeta(
        content_hash={p: "0" * 64 for p in PLATFORMS}, channels=[Channel(url=CHANNEL, used_env_vars=frozenset())], platforms=PLATFORMS, sources=["environment.yml"],
    ))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "conda-lock.yml"
        write_conda_lock_file(lock, path, metadata_choices=set(), include_help_text=False)
        return path.read_text()


write = {"pixi": pixi, "conda-lock": conda_lock}[sys.argv[1]]
sys.stdout.write(write(pathlib.Path(sys.argv[2])))
