#!/bin/sh
# Prints the packages in which something runs at once, or that talk to a server: those that
# the race detector and real servers can say more about than `make test`. The end-to-end
# tests are not among them, which run by themselves.
set -eu
go list -f '{{.ImportPath}} {{.Dir}}' ./gateway/... ./services/... | while read -r package dir; do
	case $package in */services/e2e) continue ;; esac
	if grep -qE '\bgo [[:alnum:]_.]+[({]|\.Go\(|errgroup|"sync"|"sync/atomic"|synctest|httptest|net\.Listen|internal/testkit"|SLIPWAY_TEST_REAL' "$dir"/*.go; then
		echo "$package"
	fi
done
