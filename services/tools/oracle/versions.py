"""Compares and matches versions with py-rattler and conda.

    versions.py ANSWERS DISPUTED < QUESTIONS

QUESTIONS, ANSWERS: "C a b order" (order -1, 0 or 1) and "M spec version 0/1", separated
by tabs; "E" instead of the answer: the question is rejected. Answers in QUESTIONS are
ignored. Questions on which the programs disagree are written to DISPUTED, with the answer of
rattler followed by that of conda.
"""

import sys

import rattler
from conda.models.version import VersionOrder, VersionSpec


def by_rattler(kind, a, b):
    if kind == "C":
        x, y = rattler.Version(a), rattler.Version(b)
        return "-1" if x < y else "1" if x > y else "0"
    return "1" if rattler.VersionSpec(a).matches(rattler.Version(b)) else "0"


def by_conda(kind, a, b):
    if kind == "C":
        x, y = VersionOrder(a), VersionOrder(b)
        return "-1" if x < y else "1" if y < x else "0"
    return "1" if VersionSpec(a).match(b) else "0"


def answer(judge, *question):
    try:
        return judge(*question)
    except Exception:  # each program has exceptions of its own for what it refuses
        return "E"


def main(answers, disputed):
    with open(answers, "w") as agreed, open(disputed, "w") as differing:
        for line in sys.stdin:
            question = line.rstrip("\n").split("\t")[:3]
            rattler_says, conda_says = answer(by_rattler, *question), answer(by_conda, *question)
            if rattler_says == conda_says:
                print(*question, rattler_says, sep="\t", file=agreed)
            else:
                print(*question, rattler_says, conda_says, sep="\t", file=differing)


main(*sys.argv[1:])
