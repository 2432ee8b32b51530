#!/bin/sh
# generated.sh: fails if `make generate` changes a file, which means that the generated
# files were outdated. It compares the files before and after instead of using git, so
# that uncommitted changes do not matter. The new files stay.
set -eu
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

# sums lists every generated file with a hash of its content.
sums() {
	for path in proto/gen deploy/config.md docs/operate/metrics.md docs/develop/architecture.svg gateway/web/dist; do
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
	echo "generated.sh: these generated files were outdated and have been updated; commit them:" >&2
	sort "$work/before" "$work/after" | uniq -u | sed 's/^[0-9a-f]*  /  /' | sort -u >&2
	exit 1
fi
