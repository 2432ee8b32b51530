"""Asks rattler (PyPI py-rattler 0.28.0) what requests stand for, of the channels in a folder.

    python cases.py CHANNELS OUT

CHANNELS has conda-forge/ and bioconda/, each with the subdirectories' repodata.json; OUT
gets one JSON object a line. The requests are drawn with a fixed seed.
"""

import asyncio
import datetime
import json
import pathlib
import random
import sys

import rattler
import rattler.exceptions

MACHINE = [("__glibc", "2.36", "0"), ("__linux", "5.10", "0"), ("__unix", "0", "0")]
ARCH = {"linux-64": "x86_64_v3", "linux-aarch64": "aarch64"}


def names(root, channel, platform):
    """The names and versions that a channel has for a platform."""
    out = {}
    for subdir in (platform, "noarch"):
        doc = json.loads((root / channel / subdir / "repodata.json").read_text())
        for section in ("packages", "packages.conda"):
            for record in doc.get(section, {}).values():
                out.setdefault(record["name"], set()).add(record["version"])
    return out


def pin(draw, name, versions):
    version = draw.choice(sorted(versions))
    short = ".".join(version.split(".")[:2])
    return draw.choice([f"{name} {version}", f"{name} {short}.*", f"{name} >={short}", f"{name} <={version}", name])


def requests(root):
    """All requests: platform, channels, specifications and perhaps a date."""
    draw = random.Random(14)
    forge = {p: names(root, "conda-forge", p) for p in ARCH}
    bio = names(root, "bioconda", "linux-64")
    popular = ["numpy", "pandas", "scipy", "openssl", "zlib", "libcurl", "hdf5", "matplotlib-base", "requests", "pyyaml", "cryptography", "pillow"]
    for _ in range(60):
        some = draw.sample(sorted(forge["linux-aarch64"]), draw.randint(1, 2)) + draw.sample(popular, 1)
        specs = [pin(draw, n, forge["linux-aarch64"][n]) for n in some if n in forge["linux-aarch64"]]
        yield "linux-aarch64", ["conda-forge"], specs, None
    for name in sorted(bio):
        yield "linux-64", draw.choice([["conda-forge", "bioconda"], ["bioconda", "conda-forge"]]), [pin(draw, name, bio[name]), draw.choice(popular)], None
    for name in draw.sample(sorted(bio), 15):
        yield "linux-64", ["conda-forge", "bioconda"], [name, f"python 3.{draw.randint(9, 13)}.*"], None
    for _ in range(40):
        some = draw.sample(popular, 2)
        date = f"202{draw.randint(4, 6)}-0{draw.randint(1, 9)}-15T00:00:00+00:00"
        yield "linux-64", ["conda-forge"], [pin(draw, n, forge["linux-64"][n]) for n in some], date


async def answer(root, platform, channels, specs, date):
    machine = [*MACHINE, ("__archspec", "1", ARCH[platform])]
    try:
        records = await rattler.solve(
            sources=[rattler.Channel((root / c).absolute().as_uri()) for c in channels],
            specs=[rattler.MatchSpec(s) for s in specs],
            platforms=[platform, "noarch"],
            virtual_packages=[rattler.GenericVirtualPackage(rattler.PackageName(n), rattler.Version(v), rattler.BuildString(b)) for n, v, b in machine],
            timestamp_policy="allow-missing",
            exclude_newer=datetime.datetime.fromisoformat(date) if date else None,
        )
    except rattler.exceptions.SolverError:
        return None
    return sorted(r.file_name for r in records)


async def main():
    root = pathlib.Path(sys.argv[1])
    with open(sys.argv[2], "w") as out:
        for platform, channels, specs, date in requests(root):
            line = {"platform": platform, "channels": channels, "specs": specs}
            if date:
                line["excludeNewer"] = date
            line["rattler"] = await answer(root, platform, channels, specs, date)
            print(json.dumps(line, separators=(",", ":")), file=out)


asyncio.run(main())
