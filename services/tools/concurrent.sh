#!/bin/sh
# Prints the packages that use concurrency or servers, which are also tested under the race
# detector and with real servers. The end-to-end tests are left out, since they run separately.
set -eu
go list -f '{{.ImportPath}} {{.Dir}}' ./gateway/... ./services/... | while read -r package dir; do
	case $package in */services/e2e) continue ;; esac
	if grep -qE '\bgo [[:alnum:]_.]+[({]|\.Go\(|errgroup|"sync"|"sync/atomic"|synctest|httptest|net\.Listen|internal/testkit"|SLIPWAY_TEST_REAL' "$dir"/*.go; then
		echo "$package"
	fi
done
