#!/bin/sh
# Installs a Conda environment into /opt/conda with micromamba. What a user gave
# stands in files beside this script and is never part of a command:
#
#   conda.yml   the environment, or
#   lock-url    the address of an explicit lock
#   base.yml    packages that every environment gets; may be missing
set -eu
cd "$(dirname "$0")"
prefix=/opt/conda
log=$(mktemp)
status=$(mktemp)

# attempt installs a file, shows what micromamba says and keeps it in $log.
attempt() {
	{
		code=0
		micromamba install -y -p "$prefix" -f "$1" 2>&1 || code=$?
		echo "$code" >"$status"
	} | tee "$log"
	return "$(cat "$status")"
}

# unsolvable says whether the solver gave up, and not the network or the disk.
unsolvable() {
	grep -qF \
		-e 'Could not solve for environment' \
		-e 'nothing provides' \
		-e 'does not exist (perhaps a typo or a missing channel)' \
		-e 'No candidates were found' \
		-e 'conflicts with any installable version' \
		-e 'UnsatisfiableError' \
		-e 'ResolvePackageNotFound' \
		-e 'PackagesNotFoundError' \
		"$log"
}

# install tries a second time where a package wants a GPU: the one that builds
# needs none.
install() {
	if attempt "$1"; then
		return 0
	fi
	if grep -qF '__cuda' "$log" && [ -z "${CONDA_OVERRIDE_CUDA:-}" ]; then
		echo 'slipway: a package asks for __cuda; trying again as if there were a GPU'
		CONDA_OVERRIDE_CUDA=99
		export CONDA_OVERRIDE_CUDA
		if attempt "$1"; then
			return 0
		fi
	fi
	if unsolvable; then
		echo 'slipway: conda environment could not be solved'
	fi
	exit 1
}

mkdir -p "$prefix/conda-meta"
if [ -f lock-url ]; then
	install "$(cat lock-url)"
else
	install conda.yml
fi
if [ -f base.yml ]; then
	install base.yml
fi

echo '>> CONDA_LOCK_START'
micromamba env export -p "$prefix" --explicit
echo '<< CONDA_LOCK_END'
micromamba clean -a -y
