"""Times py-rattler's solver, for services/bench.

    time_solves.py CHANNELS

CHANNELS is a folder as for solves.py. All records are read into memory first; then the
script prints a line, "ready". Each line of its input is a JSON object with a member
"specs". For each it prints the processor time of the process and the wall-clock time in
seconds, and the number of records of the solution, null for unsatisfiable.
"""

import asyncio
import json
import pathlib
import sys
import time

import rattler
import rattler.exceptions

MACHINE = [("__glibc", "2.36", "0"), ("__linux", "5.10", "0"), ("__unix", "0", "0"), ("__archspec", "1", "x86_64_v3")]


async def main(root):
    channel = rattler.Channel((pathlib.Path(root) / "conda-forge").absolute().as_uri())
    platforms = [rattler.Subdir("linux-64"), rattler.Subdir("noarch")]
    machine = [rattler.GenericVirtualPackage(rattler.PackageName(n), rattler.Version(v), rattler.BuildString(b)) for n, v, b in MACHINE]
    gateway = rattler.Gateway()
    names = await gateway.names([channel], platforms)
    await gateway.query([channel], platforms, specs=[n.normalized for n in names], recursive=False)
    print("ready", flush=True)
    for line in sys.stdin:
        specs = [rattler.MatchSpec(s) for s in json.loads(line)["specs"]]
        cpu, wall = time.process_time(), time.perf_counter()
        try:
            solution = await rattler.solve(
                sources=[channel],
                specs=specs,
                gateway=gateway,
                platforms=platforms,
                virtual_packages=machine,
                timestamp_policy="allow-missing",
                channel_relations="disabled",
            )
        except rattler.exceptions.SolverError:
            solution = None
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        print(json.dumps({"cpu": cpu, "wall": wall, "records": None if solution is None else len(solution)}), flush=True)


asyncio.run(main(sys.argv[1]))
