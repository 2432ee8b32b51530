#!/usr/bin/env bash
# release.sh: builds the release files in bin/release:
#
#   slipway_VERSION_OS_ARCH.tar.gz      the command line, for linux and darwin
#   slipwayd_VERSION_linux_ARCH.tar.gz  the server, with the buildkitd, slipway-runc and runc that it uses
#   slipway_…, slipwayd_… .deb, .rpm    the same as packages; the server with its systemd units
#   slipway-VERSION.tgz                 the Helm chart
#   slipway_client-VERSION-….whl        the Python client, for all platforms
#   *.spdx.json                         SBOMs of the server and the command line for each architecture
#   SHA256SUMS                          sha256sum --check --ignore-missing SHA256SUMS
#   provenance.sigstore.json            with SIGNING_KEY: signed SLSA provenance of all files above
#   cosign.pub                          with SIGNING_KEY: the public key
#
# Equal commits give equal bytes: programs are verified with go.sum, the builder of the wheel with its digest, runc is built from the Debian packages of
# docker/debian.txt, file times are the commit's, and archives have no owners.
#
# Needs python3 with venv, and PyPI, for the Python client.
#
# Variables: VERSION (0.1.0), PLATFORMS (linux/amd64,linux/arm64,darwin/amd64,darwin/arm64), OUT (bin/release). RUNC
# is a folder with runc-amd64 and runc-arm64; without it docker/image.sh compiles them, which needs root on Debian for
# amd64. SIGNING_KEY is a file with a private key, as in the setting signing_key_file.
set -euo pipefail
cd "$(dirname "$0")/../.."
VERSION=${VERSION:-0.1.0} PLATFORMS=${PLATFORMS:-linux/amd64,linux/arm64,darwin/amd64,darwin/arm64} OUT=${OUT:-bin/release}
COMMIT=$(git rev-parse --short=12 HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export VERSION SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
NFPM=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.0
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

# compile OS ARCH PACKAGE…: compiles programs of this repository to $work/OS-ARCH.
compile() {
	local os=$1 arch=$2
	shift 2
	CGO_ENABLED=0 GOOS=$os GOARCH=$arch go build -p 2 -trimpath -tags grpcnotrace -buildvcs=false -o "$work/$os-$arch/" \
		-ldflags "-s -w -X main.version=$VERSION -X main.commit=$COMMIT" "$@"
}

# server ARCH: compiles slipwayd and the programs that it uses.
server() {
	local buildkit
	buildkit=$(cd services/tools && GOWORK=off go list -m -f '{{.Version}}' github.com/moby/buildkit)
	compile linux "$1" ./services/cmd/slipwayd ./services/cmd/slipway-runc
	(cd services/tools && GOWORK=off CGO_ENABLED=0 GOOS=linux GOARCH=$1 go build -p 2 -trimpath -buildvcs=false -o "$work/linux-$1/" \
		-ldflags "-s -w -X github.com/moby/buildkit/version.Version=$buildkit" github.com/moby/buildkit/cmd/buildkitd)
	install -m 755 "$RUNC/runc-$1" "$work/linux-$1/runc"
}

# texts DIR: writes the shell completions and the manual pages, which are equal on all architectures, with the programs
# of this machine.
texts() {
	local here
	here=$(go env GOOS)-$(go env GOARCH)
	compile "${here%-*}" "${here#*-}" ./services/cmd/slipway ./services/cmd/slipwayd
	mkdir -p "$1/completion"
	for shell in bash zsh fish; do
		"$work/$here/slipway" completion $shell >"$1/completion/slipway.$shell"
	done
	"$work/$here/slipwayd" completion bash >"$1/completion/slipwayd.bash"
	"$work/$here/slipway" man "$1/man"
	gzip -9n "$1"/man/*.1
}

# packed NAME: writes a reproducible tar.gz of the folder $work/NAME.
packed() {
	tar -C "$work" --format=pax --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
		--mode=u=rwX,go=rX --pax-option='exthdr.name=%d/%f,delete=atime,delete=ctime' -cf - "$1" | gzip -9n
	rm -r "${work:?}/$1"
}

# archive NAME OS-ARCH FILE…: creates an archive that can be unpacked anywhere.
archive() {
	local name=$1 from=$work/$2
	shift 2
	mkdir -p "$work/$name"
	cp LICENSE README.md "$work/$name/"
	(cd "$from" && cp -r "$@" "$work/$name/")
	packed "$name" >"$OUT/$name.tar.gz"
}

# chart: packs the Helm chart of this version, with the files that it shares with deploy/k8s.
chart() {
	cp -rL deploy/helm/slipway "$work/slipway"
	sed -i -E "s/^(version|appVersion): .*/\\1: $VERSION/" "$work/slipway/Chart.yaml"
	packed slipway >"$OUT/slipway-$VERSION.tgz"
}

# bill NAME OS-ARCH FILE…: writes the SBOM of programs.
bill() {
	local name=$1 from=$work/$2
	shift 2
	mkdir -p "$work/bill-$name"
	(cd "$from" && cp "$@" "$work/bill-$name/")
	"$work/sbom" "${name%%_*}" "$VERSION" "$work/bill-$name" >"$OUT/$name.spdx.json"
}

# sign: writes the signed provenance of all files.
sign() {
	if [ -z "${SIGNING_KEY:-}" ]; then
		echo "release.sh: the files are not signed: SIGNING_KEY is not set" >&2
		return
	fi
	CGO_ENABLED=0 go build -trimpath -o "$work/sign" ./services/internal/attest/sign
	"$work/sign" -key "$SIGNING_KEY" public >"$work/cosign.pub"
	(cd "$OUT" && sha256sum -- *) | "$work/sign" -key "$SIGNING_KEY" -version "$VERSION" -commit "$(git rev-parse HEAD)" provenance \
		>"$work/provenance.sigstore.json"
	mv "$work/cosign.pub" "$work/provenance.sigstore.json" "$OUT/"
}

# package CONFIG ARCH: creates deb and rpm packages.
package() {
	for kind in deb rpm; do
		DIR=$work/linux-$2 ARCH=$2 GOWORK=off go run "$NFPM" package --config "deploy/release/$1" --packager $kind --target "$OUT/"
	done
}

rm -rf "$OUT" && mkdir -p "$OUT"
if [ -z "${RUNC:-}" ]; then
	RUNC=$work/runc
	OUT=$RUNC PLATFORMS=$(tr , '\n' <<<"$PLATFORMS" | grep ^linux/ | paste -sd,) deploy/docker/image.sh runc
fi
(cd deploy && GOWORK=off CGO_ENABLED=0 go build -trimpath -o "$work/sbom" ./docker/sbom)
chart
deploy/python/wheel.sh "$OUT"
texts "$work/any"
for platform in ${PLATFORMS//,/ }; do
	os=${platform%/*} arch=${platform#*/}
	mkdir -p "$work/$os-$arch"
	cp -r "$work/any/completion" "$work/any/man" "$work/$os-$arch/"
	compile "$os" "$arch" ./services/cmd/slipway
	archive "slipway_${VERSION}_${os}_$arch" "$os-$arch" slipway completion man
	bill "slipway_${VERSION}_${os}_$arch" "$os-$arch" slipway
	[ "$os" = linux ] || continue
	server "$arch"
	archive "slipwayd_${VERSION}_${os}_$arch" "$os-$arch" slipwayd buildkitd slipway-runc runc
	bill "slipwayd_${VERSION}_${os}_$arch" "$os-$arch" slipwayd buildkitd slipway-runc runc
	package slipway.nfpm.yaml "$arch"
	package slipwayd.nfpm.yaml "$arch"
done
(cd "$OUT" && sha256sum -- * >SHA256SUMS && cat SHA256SUMS)
sign
