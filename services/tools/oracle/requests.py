"""Generates random requests for packages of a channel from a seed.

    requests.py CHANNELS SEED COUNT > REQUESTS

CHANNELS is a folder as for solves.py. Half of the requests are realistic: a version of
python and packages that many others depend on, with the bounds that users write. The
others are of packages and bounds drawn evenly. REQUESTS has one JSON object a line, for
solves.py.
"""

import json
import pathlib
import random
import re
import sys


def load(root):
    versions, uses = {}, {}
    for subdir in ("linux-64", "noarch"):
        data = json.loads((pathlib.Path(root) / "conda-forge" / subdir / "repodata.json").read_text())
        for kind in ("packages", "packages.conda"):
            for record in data.get(kind, {}).values():
                versions.setdefault(record["name"], set()).add(record["version"])
                for need in record.get("depends", []):
                    name = need.split()[0]
                    uses[name] = uses.get(name, 0) + 1
    return {n: sorted(v) for n, v in sorted(versions.items())}, uses


def bound(draw, name, versions):
    version = draw.choice(versions)
    short = ".".join(version.split(".")[: draw.choice([1, 2, 2, 3])])
    if not re.fullmatch(r"[0-9a-z_.]+", short):
        return name
    return draw.choice([name, name, f"{name}={short}", f"{name} >={short}", f"{name} <{short}", f"{name}=={version}", f"{name} {short}.*"])


def main(root, seed, count):
    draw = random.Random(seed)
    versions, uses = load(root)
    names = list(versions)
    popular = [n for n in names if not n.startswith("_")]
    weights = [1 + uses.get(n, 0) for n in popular]
    pythons = ["3.9", "3.10", "3.11", "3.12", "3.13"]
    seen = set()
    while len(seen) < count:
        if len(seen) % 2:
            specs = [bound(draw, n, versions[n]) for n in draw.sample(names, draw.choice([1, 1, 2, 2, 3, 5]))]
        else:
            chosen = dict.fromkeys(draw.choices(popular, weights, k=draw.choice([1, 2, 3, 4, 6, 8])))
            specs = [bound(draw, n, versions[n]) if draw.random() < 0.35 else n for n in chosen if n != "python"]
            if draw.random() < 0.6:
                specs.insert(0, "python=" + draw.choice(pythons))
        key = tuple(specs)
        if specs and key not in seen:
            seen.add(key)
            print(json.dumps({"specs": specs}, separators=(",", ":")))


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
