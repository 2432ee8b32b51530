#!/bin/sh
# breaking.sh BUF: fails if proto/ is incompatible with the main branch, by the rules of
# buf.yaml. BUF is the command that runs buf.
set -eu
buf=${1:?usage: breaking.sh BUF}
cd "$(dirname "$0")/../.."

base=
for ref in refs/remotes/origin/main refs/heads/main; do
	if git rev-parse -q --verify "$ref^{commit}" >/dev/null; then
		base=$ref
		break
	fi
done
if [ -z "$base" ]; then
	echo "breaking.sh: there is no main branch here; nothing to compare with"
	exit 0
fi
if ! git cat-file -e "$base:buf.yaml" 2>/dev/null || ! git cat-file -e "$base:proto" 2>/dev/null; then
	echo "breaking.sh: $base has no buf.yaml and proto yet; nothing to compare with"
	exit 0
fi

# A plain folder, since buf would clone the repository for a git reference.
old=$(mktemp -d)
trap 'rm -rf "$old"' EXIT
trap 'exit 1' INT TERM
git archive -o "$old/base.tar" "$base" buf.yaml proto
tar -xf "$old/base.tar" -C "$old"
# BUF may consist of several words.
# shellcheck disable=SC2086
$buf breaking --against "$old"
