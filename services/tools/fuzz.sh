#!/bin/sh
# fuzz.sh TIME: runs every fuzz test of gateway and services for TIME each (30s, or
# 1000x for that many inputs), and stops at the first failure.
set -eu
time=${1:?usage: fuzz.sh TIME}
cd "$(dirname "$0")/../.."

found=$(grep -rhoE --include='*_test.go' --with-filename '^func Fuzz[A-Za-z0-9_]*\(' gateway services |
	sed -E 's,/[^/]*:func (Fuzz[A-Za-z0-9_]*)\($, \1,' | sort -u)
if [ -z "$found" ]; then
	echo "fuzz.sh: there are no fuzz tests"
	exit 0
fi
echo "$found" | while read -r folder name; do
	echo "== $name in ./$folder"
	go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" "./$folder" </dev/null
done
