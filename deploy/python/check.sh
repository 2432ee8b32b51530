#!/usr/bin/env bash
# check.sh lint: checks the style and the types of the Python client, and of the examples in its documents.
# check.sh test [ARGUMENT…]: builds the wheel and runs the tests with it; the arguments are pytest's. With the variables
# SLIPWAY_TEST_… the tests use a server (services/e2e, TestPythonClient).
#
# The first call installs the tools of requirements.txt from PyPI to ~/.cache/slipway. The exit code is 3 if that is impossible.
set -euo pipefail
cd "$(dirname "$0")"
venv=${XDG_CACHE_HOME:-$HOME/.cache}/slipway/python-$(sha256sum requirements.txt | cut -c -12)
if ! [ -e "$venv/.complete" ]; then
	if ! python3 -c 'import ensurepip' 2>/dev/null || ! python3 -m venv --clear "$venv" ||
		! "$venv/bin/pip" install --quiet --disable-pip-version-check -r requirements.txt; then
		echo 'check.sh: the tools of the Python client cannot be installed: that needs python3 with venv (Debian: python3-venv) and PyPI' >&2
		exit 3
	fi
	touch "$venv/.complete"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# examples: writes the Python examples of the documents to $work, as one module for each document.
examples() {
	for document in README.md ../../docs/integrate/python.md; do
		awk '/^```python$/ { on = 1; next } /^```$/ { on = 0 } on' "$document" >"$work/example_$(basename "$document" .md).py"
	done
}

case ${1:?usage: check.sh lint | test} in
lint)
	# mypy spends nearly all of its time on the standard library and the tools, which do not change: it begins with a
	# copy of its first cache, whose times it verifies. Concurrent checks do not share a folder.
	[ ! -d "$venv/mypy" ] || cp -rp "$venv/mypy" "$work/mypy"
	"$venv/bin/ruff" check --quiet --no-cache .
	"$venv/bin/ruff" format --check --quiet --no-cache . || { echo 'check.sh: run ruff format in deploy/python' >&2 && exit 1; }
	"$venv/bin/mypy" --cache-dir "$work/mypy" --no-error-summary
	examples
	for example in "$work"/example_*.py; do
		"$venv/bin/mypy" --cache-dir "$work/mypy" --no-error-summary "$example"
	done
	if [ ! -d "$venv/mypy" ]; then
		{ cp -rp "$work/mypy" "$venv/mypy.$$" && mv -T "$venv/mypy.$$" "$venv/mypy"; } 2>/dev/null || rm -rf "$venv/mypy.$$"
	fi
	;;
test)
	PYTHON=$venv/bin/python ./wheel.sh "$work"
	"$venv/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps --target "$work/installed" "$work"/*.whl
	PYTHONPATH=$work/installed PYTHONDONTWRITEBYTECODE=1 "$venv/bin/pytest" "${@:2}"
	;;
*)
	echo "check.sh: there is no check $1" >&2 && exit 2
	;;
esac
