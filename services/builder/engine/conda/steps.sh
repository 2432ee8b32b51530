#!/bin/sh
# Runs on an image of Conda packages what conda runs while it installs them. Which that
# is stands in files beside this script, and is never part of a command:
#
#   links             a script a line: its path below the prefix, then its package's
#                     name, version and build number, with tabs between them
#   requirements.txt  what pip installs
#   cran              the R packages that cran.R builds from source
#   compile           says that modules of Python are compiled
#
# Each may be missing.
set -eu
cd "${0%/*}"
export PREFIX=/opt/conda ROOT_PREFIX=/opt/conda SOURCE_DIR=/opt/conda

shell=sh
if command -v bash >/dev/null 2>&1; then
	shell=bash
fi

# enter runs a command in a folder, in a shell that has activated the environment.
enter() {
	"$shell" -c '
		cd "$0"
		for hook in "$PREFIX"/etc/conda/activate.d/*.sh; do
			if [ -r "$hook" ]; then
				. "$hook"
			fi
		done
		exec "$@"' "$@" </dev/null
}

# linked runs the scripts of packages, and shows what they leave for the user.
linked() {
	tab=$(printf '\t')
	while IFS=$tab read -r script PKG_NAME PKG_VERSION PKG_BUILDNUM; do
		export PKG_NAME PKG_VERSION PKG_BUILDNUM
		echo "slipway: running $script of $PKG_NAME $PKG_VERSION"
		code=0
		enter "$PREFIX" "$shell" "$PREFIX/$script" || code=$?
		if [ -f "$PREFIX/.messages.txt" ]; then
			cat "$PREFIX/.messages.txt"
			rm -f "$PREFIX/.messages.txt"
		fi
		if [ "$code" != 0 ]; then
			echo "slipway: $script of $PKG_NAME $PKG_VERSION failed with exit code $code"
			exit 1
		fi
	done <links
}

if [ -f links ]; then
	linked
fi
if [ -f requirements.txt ]; then
	export PIP_NO_INPUT=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
	"$PREFIX/bin/python" -m pip install --no-cache-dir -r requirements.txt
fi
if [ -f cran ]; then
	CONDA_PREFIX=$PREFIX enter "$(pwd)" "$PREFIX/bin/Rscript" --vanilla cran.R
fi
if [ -f compile ]; then
	if [ ! -x "$PREFIX/bin/python" ]; then
		echo "slipway: nothing can be compiled: there is no Python among the packages; add it, or leave packages.condaOpts.compile out"
		exit 1
	fi
	# Some packages hold sources that no Python reads, such as templates: those stay.
	PYTHONHASHSEED=0 "$PREFIX/bin/python" -m compileall -qq --invalidation-mode unchecked-hash "$PREFIX"/lib/python*/site-packages ||
		echo "slipway: some modules were not compiled: they are not in this Python's language"
fi
