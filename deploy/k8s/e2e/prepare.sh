#!/bin/sh
# prepare.sh [programs]: builds the programs and images of the test cluster in ${XDG_CACHE_HOME:-~/.cache}/slipway/k8s, and
# rebuilds them only when their sources change: Kubernetes and etcd in one program (the first time: 11 minutes of
# processor time, 2.5 GB), CoreDNS, prometheus-adapter, and images. Our own images come from `make image`. Installs
# missing Debian packages. `prepare.sh programs` only builds what takes long, at the lowest priority.
set -eu
cd "$(dirname "$0")"
top=$(git rev-parse --show-toplevel)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/slipway/k8s
mkdir -p "$cache/bin" "$cache/images"
export GOWORK=off GOFLAGS= CGO_ENABLED=0

missing=
for p in containerd runc containernetworking-plugins nftables iproute2 mmdebstrap libcap2-bin busybox-static openssl; do
	dpkg -s "$p" >/dev/null 2>&1 || missing="$missing $p"
done
if [ -n "$missing" ]; then
	apt-get update -qq
	# shellcheck disable=SC2086
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
fi

# changed NAME FILE…: reports whether NAME in the cache was built from other files.
changed() {
	name=$1 && shift
	key=$(cat "$@" | sha256sum)
	[ -e "$cache/$name" ] && [ "$(cat "$cache/$name.key" 2>/dev/null)" = "$key" ] && return 1
	echo "making $name"
}
made() { echo "$key" >"$cache/$name.key"; }

version=v1.36.3
flags="-s -w"
for p in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	flags="$flags -X $p.gitVersion=$version -X $p.gitMajor=1 -X $p.gitMinor=36 -X $p.gitTreeState=clean"
done
if changed bin/hyperkube go.mod go.sum hyperkube/main.go; then
	nice -n 19 go build -p 2 -trimpath -buildvcs=false -ldflags "$flags" -o "$cache/bin/hyperkube" ./hyperkube
	made
fi
if changed bin/dns dns/go.mod dns/go.sum dns/main.go; then
	(cd dns && nice -n 19 go build -p 2 -trimpath -buildvcs=false -ldflags '-s -w' -o "$cache/bin/dns" .)
	made
fi
if changed bin/adapter adapter/go.mod adapter/go.sum; then
	(cd adapter && nice -n 19 go build -p 2 -trimpath -buildvcs=false -ldflags '-s -w' -o "$cache/bin/adapter" sigs.k8s.io/prometheus-adapter/cmd/adapter)
	made
fi
[ "${1:-}" != programs ] || exit 0
go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$cache/bin/pause" ./pause
go build -trimpath -buildvcs=false -o "$cache/bin/e2e" .
if changed servers.tar files/servers.sh files/docker-entrypoint.sh "$top/services/tools/go.sum"; then
	(cd "$top/services/tools" && nice -n 19 go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$cache/bin/registry" github.com/distribution/distribution/v3/cmd/registry)
	files/servers.sh "$cache/servers.tar" "$cache/bin/registry"
	made
fi
"$cache/bin/e2e" -images
