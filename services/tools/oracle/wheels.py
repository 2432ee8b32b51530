"""Prints which wheel tags fit which Python and machine, according to PyPA's packaging.

Run it manually with packaging 24.2, and commit the result:

    python wheels.py > ../../conda/spec/testdata/wheel-tags.json
"""

import itertools
import json

from packaging import _manylinux, tags

PYTHONS = ["py3", "py2", "py2.py3", "py27", "py30", "py36", "py311", "py312", "py313", "py314", "py03", "cp36", "cp32", "cp31", "cp310", "cp311", "cp312", "cp313", "cp314", "pp310", "cp3", "cp36.cp311"]
ABIS = ["none", "abi3", "cp311", "cp313", "cp313t", "cp310", "cp312", "cp36m", "abi3t"]
PLATFORMS = [
    "any", "linux_x86_64", "linux_aarch64", "manylinux1_x86_64", "manylinux2010_x86_64", "manylinux2014_x86_64", "manylinux2014_aarch64", "manylinux1_aarch64",
    "manylinux_2_4_x86_64", "manylinux_2_5_x86_64", "manylinux_2_17_x86_64.manylinux2014_x86_64", "manylinux_2_28_x86_64", "manylinux_2_36_x86_64", "manylinux_2_39_x86_64",
    "manylinux_2_40_x86_64", "manylinux_2_28_aarch64", "manylinux_2_16_aarch64", "musllinux_1_2_x86_64", "macosx_11_0_arm64", "win_amd64", "manylinux_2_017_x86_64", "manylinux_3_0_x86_64",
]
MACHINES = [
    (python, threaded, platform, glibc)
    for python, threaded in [("3.6", False), ("3.10", False), ("3.11", False), ("3.12", False), ("3.13", False), ("3.13", True)]
    for platform, glibc in [("linux-64", "2.39"), ("linux-64", "2.17"), ("linux-64", ""), ("linux-aarch64", "2.36")]
]


def supported(python, threaded, platform, glibc):
    """Returns the tags that fit an interpreter."""
    minor = int(python.split(".")[1])
    machine = {"linux-64": "x86_64", "linux-aarch64": "aarch64"}[platform]
    platforms = [f"linux_{machine}"]
    if glibc:
        _manylinux._get_glibc_version = lambda: tuple(int(n) for n in glibc.split("."))
        _manylinux._have_compatible_abi = lambda executable, archs: True
        _manylinux._get_manylinux_module = lambda: None
        platforms = [*_manylinux.platform_tags([machine]), *platforms]
    own = f"cp3{minor}"
    abi = own + ("t" if threaded else "m" if minor < 8 else "")
    abis = [abi]
    return {*tags.cpython_tags((3, minor), abis=abis, platforms=platforms), *tags.compatible_tags((3, minor), interpreter=own, platforms=platforms)}


def main():
    names = ["-".join(t) for t in itertools.product(PYTHONS, ABIS, PLATFORMS)]
    machines = []
    for machine in MACHINES:
        fits = supported(*machine)
        python, threaded, platform, glibc = machine
        good = [i for i, name in enumerate(names) if fits & tags.parse_tag(name)]
        machines.append({"python": python, "freeThreaded": threaded, "platform": platform, "glibc": glibc, "fits": good})
    text = json.dumps({"tags": names, "machines": machines}, separators=(",", ":"))
    print(text.replace('{"python"', '\n{"python"'))


main()
