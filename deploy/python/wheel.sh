#!/usr/bin/env bash
# wheel.sh OUT: builds the wheel of the Python client in the folder OUT. Equal commits give equal bytes.
#
# Variables: VERSION (that of pyproject.toml), SOURCE_DATE_EPOCH (the commit's time), and PYTHON, a Python that has
# flit_core. Without PYTHON it is installed from PyPI, which needs python3 with venv.
set -euo pipefail
out=$(mkdir -p "${1:?usage: wheel.sh OUT}" && cd "$1" && pwd)
cd "$(dirname "$0")"
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "${PYTHON:-}" ]; then
	python3 -m venv "$work/venv"
	PYTHON=$work/venv/bin/python
	"$PYTHON" -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r build-requirements.txt
fi
mkdir "$work/package"
cp -r src pyproject.toml README.md ../../LICENSE "$work/package/"
cd "$work/package"
[ -z "${VERSION:-}" ] || sed -i "s/^version = .*/version = \"$VERSION\"/" pyproject.toml
"$PYTHON" -c 'import sys; from flit_core import buildapi; buildapi.build_wheel(sys.argv[1])' "$work"
install -m 644 "$work"/*.whl "$out/"
