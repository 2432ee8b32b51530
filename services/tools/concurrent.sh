#!/bin/sh
# Prints the packages that use concurrency or servers, which are also tested under the race
# detector and with real servers. `concurrent.sh others` prints the other packages. Neither prints
# the end-to-end tests, since they run separately. The tests of `slipway run` start the program hundreds of times, which
# takes many minutes under the race detector; what they start is tested under it in services/mount.
set -eu
go list -f '{{.ImportPath}} {{.Dir}}' ./proto/... ./gateway/... ./services/... | while read -r package dir; do
	kind=others
	case $package in
	*/services/e2e) continue ;;
	*/proto/gen/* | */services/cmd/slipway/internal/run) ;;
	*) grep -qE '\bgo [[:alnum:]_.]+[({]|\.Go\(|errgroup|"sync"|"sync/atomic"|synctest|httptest|net\.Listen|internal/testkit"|SLIPWAY_TEST_REAL' "$dir"/*.go && kind= ;;
	esac
	if [ "$kind" = "${1:-}" ]; then
		echo "$package"
	fi
done
