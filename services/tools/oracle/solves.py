"""Solves requests with py-rattler.

    solves.py CHANNELS < SOLVES > ANSWERS

CHANNELS is a folder with conda-forge/linux-64/repodata.json and
conda-forge/noarch/repodata.json. SOLVES and ANSWERS have one JSON object a line; the
member "rattler" is replaced by the sorted file names, or null for unsatisfiable.
"""

import asyncio
import json
import pathlib
import sys

import rattler
import rattler.exceptions

MACHINE = [("__glibc", "2.36", "0"), ("__linux", "5.10", "0"), ("__unix", "0", "0"), ("__archspec", "1", "x86_64_v3")]


async def solve(channel, specs):
    try:
        records = await rattler.solve(
            sources=[channel],
            specs=[rattler.MatchSpec(s) for s in specs],
            platforms=["linux-64", "noarch"],
            virtual_packages=[rattler.GenericVirtualPackage(rattler.PackageName(n), rattler.Version(v), rattler.BuildString(b)) for n, v, b in MACHINE],
            timestamp_policy="allow-missing",
        )
    except rattler.exceptions.SolverError:
        return None
    return sorted(r.file_name for r in records)


async def main(root):
    channel = rattler.Channel((pathlib.Path(root) / "conda-forge").absolute().as_uri())
    for line in sys.stdin:
        case = json.loads(line)
        case["rattler"] = await solve(channel, case["specs"])
        print(json.dumps(case, separators=(",", ":")), flush=True)


asyncio.run(main(sys.argv[1]))
