"""Prints the files of wheels as installed by PyPA's installer 0.7.0: path, digest and mode, and the rows of RECORD.

    python install_wheels.py WHEEL... > ../../conda/packages/artifact/testdata/wheels.json
"""

import csv
import hashlib
import json
import pathlib
import posixpath
import sys
import tempfile

from installer import install
from installer.destinations import SchemeDictionaryDestination
from installer.sources import WheelFile
from installer.utils import parse_entrypoints

PREFIX = "/opt/conda"
SITE = "lib/python3.11/site-packages"


def installed(file):
    """Returns the tree of one wheel."""
    with tempfile.TemporaryDirectory() as destdir, WheelFile.open(file) as source:
        scheme = {
            "purelib": f"{PREFIX}/{SITE}",
            "platlib": f"{PREFIX}/{SITE}",
            "headers": f"{PREFIX}/include/python3.11/{source.distribution}",
            "scripts": f"{PREFIX}/bin",
            "data": PREFIX,
        }
        to = SchemeDictionaryDestination(scheme, interpreter=f"{PREFIX}/bin/python3.11", script_kind="posix", destdir=destdir)
        install(source, to, additional_metadata={"INSTALLER": b"slipway\n"})
        points = []
        if "entry_points.txt" in source.dist_info_filenames:
            points = sorted({f"bin/{name}" for name, _, _, _ in parse_entrypoints(source.read_dist_info("entry_points.txt"))})
        root = pathlib.Path(destdir) / PREFIX[1:]
        files = {}
        record = {}
        for path in sorted(root.rglob("*")):
            if not path.is_file():
                continue
            name = str(path.relative_to(root))
            files[name] = {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "x": bool(path.stat().st_mode & 0o111)}
            if name == f"{SITE}/{source.dist_info_dir}/RECORD":
                files[name] = {"x": False}
                record = {posixpath.normpath(row[0]): row[1:] for row in csv.reader(path.read_text().splitlines())}
        return {"files": files, "record": record, "programs": points}


print(json.dumps({pathlib.Path(file).name: installed(file) for file in sys.argv[1:]}, indent=1, sort_keys=True))
