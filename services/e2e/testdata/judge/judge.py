"""Reads the environment of an image with py-rattler and conda, and prints the results.

The query is JSON on standard input: the prefix, and optionally a channel with a package to
install besides, which conda only plans (--dry-run).
"""

import json
import pathlib
import sys

import rattler
from conda.cli.python_api import Commands, run_command


def conda(*args):
    out, errors, code = run_command(*args, use_exception_handler=True)
    if code:
        sys.exit(f"conda {args} ends with {code}:\n{out}{errors}")
    return out


def records(prefix):
    """Returns the file names of the packages that py-rattler reads."""
    found = []
    for path in sorted(pathlib.Path(prefix).glob("conda-meta/*.json")):
        r = rattler.PrefixRecord.from_path(path)
        assert [str(f) for f in r.files] == [str(p.relative_path) for p in r.paths_data.paths], path
        assert path.name == f"{r.name.normalized}-{r.version}-{r.build}.json", path
        found.append(r.url)
    return found


def main():
    query = json.load(sys.stdin)
    prefix = ["-p", query["Prefix"]]
    answer = {
        "Rattler": records(query["Prefix"]),
        "List": json.loads(conda(Commands.LIST, *prefix, "--json")),
        "Explicit": conda(Commands.LIST, *prefix, "--explicit"),
        "Revisions": conda(Commands.LIST, *prefix, "--revisions"),
    }
    if query["More"]:
        channel = ["--override-channels", "-c", query["Channel"]]
        plan = json.loads(conda(Commands.INSTALL, *prefix, *channel, "--dry-run", "--json", query["More"]))
        answer["Plan"] = {"Link": [], "Unlink": []} | {k.title(): v for k, v in plan.get("actions", {}).items() if k in ("LINK", "UNLINK")}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":  # the solver of conda starts a process that imports this
    main()
