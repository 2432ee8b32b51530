"""Installs environments with py-rattler, for services/bench.

    install_environments.py CACHE

CACHE is a folder for packages, which all environments share. Each line of the input is a
JSON object with the URL of a "channel", a "release" of it, a "prefix", and "specs". For each
the script prints "done" when the environment is installed. It fetches the list of a release
once.
"""

import asyncio
import json
import os
import pathlib
import sys

import rattler


async def main(cache):
    platforms = [rattler.Subdir("linux-64")]
    gateways = {}
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["release"] not in gateways:
            gateways[asked["release"]] = rattler.Gateway(cache_dir=cache / f"repodata-{asked['release']}")
        records = await rattler.solve(
            sources=[rattler.Channel(asked["channel"])],
            specs=[rattler.MatchSpec(s) for s in asked["specs"]],
            gateway=gateways[asked["release"]],
            platforms=platforms,
            virtual_packages=rattler.VirtualPackage.detect(),
            timestamp_policy="allow-missing",
            channel_relations="disabled",
        )
        await rattler.install(records, asked["prefix"], cache_dir=cache / "packages", show_progress=False)
        print("done", flush=True)


asyncio.run(main(pathlib.Path(sys.argv[1])))
os._exit(0)  # its threads may abort the end of the interpreter
