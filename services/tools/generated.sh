#!/bin/sh
# generated.sh: fails when `make generate` changes anything: then the generated
# files do not belong to their sources. It compares before with after, not with
# git, so that uncommitted work does not matter; what it made anew stays.
set -eu
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

# sums lists every generated file with a hash of its content.
sums() {
	for path in proto/gen deploy/config.md deploy/metrics.md; do
		if [ -e "$path" ]; then
			find "$path" -type f -exec sha256sum {} +
		fi
	done | sort -k 2
}

sums >"$work/before"
if ! "${MAKE:-make}" generate >"$work/log" 2>&1; then
	cat "$work/log" >&2
	echo "generated.sh: \`make generate\` failed" >&2
	exit 1
fi
sums >"$work/after"

if ! cmp -s "$work/before" "$work/after"; then
	echo "generated.sh: these generated files did not fit their sources; they are made anew, commit them:" >&2
	sort "$work/before" "$work/after" | uniq -u | sed 's/^[0-9a-f]*  /  /' | sort -u >&2
	exit 1
fi
