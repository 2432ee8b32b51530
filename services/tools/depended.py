#!/usr/bin/env python3
"""depended.py COUNT REPODATA...: prints the COUNT packages on which most packages in the given repodata.json or
repodata.json.zst files depend, each with the number of these packages, separated by a tab.

services/internal/vulns/testdata/depended.tsv is its output for 300 and the lists of conda-forge and Bioconda. Each of
them needs a row in services/internal/vulns/conda.tsv: a name with evidence, or the reason why there is none."""
import collections
import json
import subprocess
import sys


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    needs = collections.defaultdict(set)
    for path in sys.argv[2:]:
        if path.endswith(".zst"):
            raw = subprocess.run(["zstd", "-dc", path], capture_output=True, check=True).stdout
        else:
            with open(path, "rb") as f:
                raw = f.read()
        lists = json.loads(raw)
        for kind in ("packages", "packages.conda"):
            for record in lists.get(kind, {}).values():
                for need in record["depends"]:
                    needs[need.split()[0]].add(record["name"])
    ranked = sorted((-len(by), name) for name, by in needs.items() if not name.startswith("__"))
    for count, name in ranked[: int(sys.argv[1])]:
        print(f"{name}\t{-count}")


main()
