"""Installs packages with py-rattler, and prints their records.

The query is JSON on standard input: the URL of the channel, the specs, the prefix, and a folder for the
cache.
"""

import asyncio
import json
import os
import pathlib
import sys

import rattler


async def main():
    query = json.load(sys.stdin)
    gateway = rattler.Gateway(cache_dir=pathlib.Path(query["Cache"]) / "lists")
    records = await rattler.solve(
        [rattler.Channel(query["Channel"])], query["Specs"], gateway=gateway, platforms=["linux-64"], virtual_packages=[]
    )
    await rattler.install(
        records, query["Prefix"], cache_dir=pathlib.Path(query["Cache"]) / "pkgs", platform=rattler.Platform("linux-64"), show_progress=False
    )
    found = [rattler.PrefixRecord.from_path(p) for p in pathlib.Path(query["Prefix"]).glob("conda-meta/*.json")]
    json.dump(
        [{"Name": r.name.normalized, "Version": str(r.version), "Build": str(r.build), "URL": str(r.url), "SHA256": r.sha256.hex()} for r in found], sys.stdout
    )


asyncio.run(main())
sys.stdout.flush()
os._exit(0)  # rattler's threads can crash while the interpreter ends
