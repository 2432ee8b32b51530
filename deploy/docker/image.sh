#!/usr/bin/env bash
# image.sh [pin | runc]: builds the two images as OCI layouts, bin/images/slipwayd and bin/images/slipway-builder.
#
#   slipwayd         all roles: one static program and the certificates of public authorities
#   slipway-builder  the same with buildkitd, buildctl, slipway-runc, runc, rootlesskit and newuidmap, for the builder role and
#                    rootless BuildKit
#
# Go programs are compiled here for each platform and verified with go.sum. Programs in C come from Debian packages
# that are pinned in debian.txt; `image.sh pin` updates the pins. runc is compiled here with gcc and libseccomp from
# pinned packages, independent of the packages of this machine. The images are assembled by our own BuildKit, so that
# equal commits and packages give equal digests. Each platform's image has an SPDX SBOM as a referrer. `image.sh runc`
# builds OUT/runc-ARCH only, for packages.
#
# Variables: VERSION, PLATFORMS (linux/amd64,linux/arm64), PUSH (registry/path to copy the images to), OUT
# (bin/images), SIGNING_KEY (file with a private key as in signing_key_file: the images get signatures, provenance and
# signed SBOMs as referrers, which cosign verifies). Needs root, and Debian for amd64 with mmdebstrap, libcap2-bin and
# runc.
#
# For test images: UNPINNED=1 accepts packages that differ from debian.txt, with a warning, and
# RUNC_CACHE=DIR stores the compiled runc there until its sources change.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=deploy/docker
VERSION=${VERSION:-0.1.0} PLATFORMS=${PLATFORMS:-linux/amd64,linux/arm64} OUT=${OUT:-bin/images}
COMMIT=$(git rev-parse --short=12 HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022
archs=${PLATFORMS//linux\//}
archs=${archs//,/ }
work=$(mktemp -d)
daemon=
finish() {
	[ -z "$daemon" ] || { kill "$daemon" && wait "$daemon"; } 2>/dev/null || true
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM

# packages NAME ARCH PACKAGES: unpacks Debian packages to $work/NAME, and lists their names and checksums beside it.
packages() {
	mmdebstrap --quiet --variant=extract --mode=root --architectures="$2" --include="$3" \
		--extract-hook="cd \"\$1/var/cache/apt/archives\" && sha256sum *.deb >'$work/$1.txt'" bookworm "$work/$1"
}

# programs ARCH: compiles the Go programs of both images.
programs() {
	local to=$work/bin-$1 buildkit
	mkdir -p "$to"
	buildkit=$(cd services/tools && GOWORK=off go list -m -f '{{.Version}}' github.com/moby/buildkit)
	CGO_ENABLED=0 GOARCH=$1 go build -trimpath -tags grpcnotrace -buildvcs=false -o "$to/" \
		-ldflags "-s -w -X main.version=$VERSION -X main.commit=$COMMIT" ./services/cmd/slipwayd
	CGO_ENABLED=0 GOARCH=$1 go build -trimpath -buildvcs=false -o "$to/" -ldflags "-s -w" ./services/cmd/slipway-runc
	(cd services/tools && GOWORK=off CGO_ENABLED=0 GOARCH=$1 go build -trimpath -buildvcs=false -o "$to/" \
		-ldflags "-s -w -X github.com/moby/buildkit/version.Version=$buildkit" \
		github.com/moby/buildkit/cmd/buildkitd github.com/moby/buildkit/cmd/buildctl)
}

# triplet ARCH: prints gcc's name of the architecture.
triplet() {
	case $1 in
	amd64) echo x86_64-linux-gnu ;;
	arm64) echo aarch64-linux-gnu ;;
	esac
}

# runc_key: prints a hash of the sources of runc.
runc_key() { (cat $here/debian.txt services/tools/go.mod services/tools/go.sum && go version) | sha256sum | cut -c1-32; }

# kept ARCH: prints the path of the cached runc; empty without RUNC_CACHE.
kept() { [ -z "${RUNC_CACHE:-}" ] || echo "$RUNC_CACHE/runc-$1-$(runc_key)"; }

# runtime ARCH: copies runc from the cache or compiles it.
runtime() {
	local kept
	kept=$(kept "$1")
	if [ -n "$kept" ] && [ -x "$kept" ]; then
		install -m 755 "$kept" "$work/bin-$1/runc"
		return
	fi
	compile_runc "$1"
	if [ -n "$kept" ]; then
		mkdir -p "$RUNC_CACHE"
		rm -f "$RUNC_CACHE/runc-$1-"*
		install -m 755 "$work/bin-$1/runc" "$kept.new" && mv "$kept.new" "$kept"
	fi
}

# compile_runc ARCH: compiles runc in a root file system with gcc. Only Go and its module cache come from this
# machine.
compile_runc() {
	local cc=$work/cc goroot modules
	goroot=$(go env GOROOT) modules=$(go env GOMODCACHE)
	(cd services/tools && GOWORK=off go list -deps -tags seccomp github.com/opencontainers/runc >/dev/null)
	export cc goroot modules
	CC_DIRS="$goroot $modules $PWD $work/bin-$1 $work/dev-$1" unshare --mount --propagation private sh -euc '
		mkdir -p "$cc/dev" "$cc/tmp" && mount --rbind /dev "$cc/dev"
		for dir in $CC_DIRS; do mkdir -p "$cc$dir" && mount --bind "$dir" "$cc$dir"; done
		exec env -i PATH="$goroot/bin:/usr/bin:/usr/sbin" HOME=/tmp "$@"' sh \
		GOROOT="$goroot" GOMODCACHE="$modules" GOCACHE=/tmp/cache GOWORK=off GOPROXY=off GOTOOLCHAIN=local GOFLAGS=-p=2 GOARCH="$1" CGO_ENABLED=1 \
		CC="$(triplet "$1")-gcc --sysroot=$work/dev-$1" PKG_CONFIG=pkgconf PKG_CONFIG_LIBDIR="$work/dev-$1/usr/lib/$(triplet "$1")/pkgconfig" \
		chroot "$cc" go build -C "$PWD/services/tools" -trimpath -buildvcs=false -tags seccomp,netgo,osusergo -ldflags '-s -w -extldflags -static' \
		-o "$work/bin-$1/runc" github.com/opencontainers/runc
}

# skeleton ROOT ARCH: creates the files that both images share.
skeleton() {
	mkdir -p "$1"/{etc/ssl/certs,usr/bin,usr/sbin,tmp,data,run}
	chmod 1777 "$1/tmp"
	chown 65532:65532 "$1/data"
	echo 'slipway:x:65532:65532:slipway:/data:/sbin/nologin' >"$1/etc/passwd"
	echo 'slipway:x:65532:' >"$1/etc/group"
	find "$work/debian-$2/usr/share/ca-certificates/mozilla" -name '*.crt' | sort | xargs cat >"$1/etc/ssl/certs/ca-certificates.crt"
	install -m 755 "$work/bin-$2/slipwayd" "$1/usr/bin/"
}

# builder ROOT ARCH: adds the files of the builder image.
builder() {
	local from=$work/debian-$2 dir file
	install -m 755 "$work/bin-$2/buildkitd" "$work/bin-$2/buildctl" "$work/bin-$2/slipway-runc" "$work/bin-$2/runc" "$1/usr/bin/"
	install -m 755 "$from"/usr/bin/{rootlesskit,newuidmap,newgidmap} "$1/usr/bin/"
	# Debian's programs are setuid root, which does not work in a container without privileges.
	setcap cap_setuid+ep "$1/usr/bin/newuidmap"
	setcap cap_setgid+ep "$1/usr/bin/newgidmap"
	for dir in lib lib64 usr/lib; do # not every architecture has all of these
		[ ! -d "$from/$dir" ] || (cd "$from" && find "$dir" ! -type d -name '*.so*' ! -path '*/gconv/*' ! -path '*/security/*' -print0 |
			xargs -0r cp -d --parents -t "$1")
	done
	for file in subuid subgid; do echo 'slipway:100000:65536' >"$1/etc/$file"; done
	for dir in state socket; do install -d -m 700 -o 65532 -g 65532 "$1/$dir"; done
}

# packed ROOT: writes a reproducible tar.
packed() {
	tar -C "$1" --format=pax --sort=name --mtime="@$SOURCE_DATE_EPOCH" --numeric-owner --xattrs \
		--xattrs-include=security.capability --pax-option='exthdr.name=%d/%f,delete=atime,delete=ctime' -cf - .
}

# pinned: checks that the packages are the ones in debian.txt.
pinned() {
	(cd "$work" && for tree in debian-amd64 debian-arm64 cc dev-amd64 dev-arm64; do
		[ -f "$tree.txt" ] || continue
		sed "s/^/${tree#debian-} /" "$tree.txt"
	done) >"$work/debian.txt"
	if [ "${1:-}" = pin ]; then
		cp "$work/debian.txt" $here/debian.txt
		exit
	fi
	for tree in cc ${images:+$archs} $(for arch in $archs; do echo "dev-$arch"; done); do
		grep -q "^$tree " "$work/debian.txt" || continue # its result is cached
		if ! diff <(grep "^$tree " $here/debian.txt) <(grep "^$tree " "$work/debian.txt") >&2; then
			echo "image.sh: Debian's packages are not those of debian.txt any more (above); \`$here/image.sh pin\` takes them" >&2
			[ -n "${UNPINNED:-}" ] || exit 1
		fi
	done
}

# start: runs our BuildKit until this script ends.
start() {
	[ -x bin/buildkitd ] || make builder >&2
	printf '[worker.containerd]\n  enabled = false\n[worker.oci]\n  snapshotter = "native"\n' >"$work/buildkitd.toml"
	PATH="$PWD/bin:$PATH:/usr/sbin" bin/buildkitd --config "$work/buildkitd.toml" --root "$work/buildkit" --addr "unix://$work/buildkitd.sock" \
		--otel-socket-path "$work/otel.sock" >"$work/buildkitd.log" 2>&1 &
	daemon=$!
	for _ in $(seq 3000); do # it may run beside tests with the lowest priority
		bin/buildctl --addr "unix://$work/buildkitd.sock" debug info >/dev/null 2>&1 && return
		kill -0 "$daemon" 2>/dev/null || break
		sleep 0.1
	done
	cat "$work/buildkitd.log" >&2
	exit 1
}

tools() {
	(cd services/tools && GOWORK=off CGO_ENABLED=0 go build -trimpath -buildvcs=false -o ../../bin/ \
		github.com/moby/buildkit/cmd/buildctl github.com/regclient/regclient/cmd/regctl)
	(cd deploy && GOWORK=off CGO_ENABLED=0 go build -trimpath -o ../bin/sbom ./docker/sbom)
	CGO_ENABLED=0 go build -trimpath -o bin/sign ./services/internal/attest/sign
}

# signed DIGEST TYPE ARGUMENTS: signs a statement of the predicate type about a manifest in the layout.
signed() {
	local digest=$1 type=$2
	shift 2
	echo "${digest#sha256:}" | bin/sign -key "$SIGNING_KEY" "$@" >"$work/bundle.json"
	bin/regctl artifact put --subject "ocidir://$layout@$digest" --artifact-type "$bundle" --file-media-type "$bundle" \
		--annotation dev.sigstore.bundle.content=dsse-envelope --annotation "dev.sigstore.bundle.predicateType=$type" \
		--annotation "$created" \
		--file "$work/bundle.json" >/dev/null
}

# sign DIGEST [SBOM]: signs a manifest of the layout, its provenance and its SBOM.
sign() {
	signed "$1" https://sigstore.dev/cosign/sign/v1 signature
	signed "$1" https://slsa.dev/provenance/v1 -version "$VERSION" -commit "$(git rev-parse HEAD)" provenance
	[ -z "${2:-}" ] || signed "$1" https://spdx.dev/Document -sbom "$2" spdx
}

images=yes
[ "${1:-}" != runc ] || images=
for arch in $archs; do
	[ -z "$images" ] || packages "debian-$arch" "$arch" uidmap,rootlesskit,ca-certificates
	kept=$(kept "$arch")
	[ -z "$kept" ] || [ ! -x "$kept" ] || [ "${1:-}" = pin ] || continue
	[ -d "$work/cc" ] || packages cc amd64 gcc,gcc-aarch64-linux-gnu,pkgconf
	packages "dev-$arch" "$arch" libc6-dev,libseccomp-dev
done
pinned "$@"
if [ -z "$images" ]; then
	mkdir -p "$OUT"
	for arch in $archs; do
		mkdir -p "$work/bin-$arch"
		runtime "$arch"
		install -m 755 "$work/bin-$arch/runc" "$OUT/runc-$arch"
	done
	exit
fi
created="org.opencontainers.image.created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)"
bundle=application/vnd.dev.sigstore.bundle.v0.3+json
[ -n "${SIGNING_KEY:-}" ] || echo "image.sh: the images are not signed: SIGNING_KEY is not set" >&2
tools
start
mkdir -p "$work/context"
cp $here/Dockerfile "$work/context/"
for arch in $archs; do
	programs "$arch"
	runtime "$arch"
	for image in slipwayd slipway-builder; do
		root=$work/root-$image-$arch
		skeleton "$root" "$arch"
		[ $image = slipwayd ] || builder "$root" "$arch"
		packed "$root" >"$work/context/$image-$arch.tar"
	done
done
for image in slipwayd slipway-builder; do
	layout=$OUT/$image
	rm -rf "$layout" && mkdir -p "$layout"
	bin/buildctl --addr "unix://$work/buildkitd.sock" build --progress=plain --no-cache --frontend dockerfile.v0 --opt cmdline=builtin \
		--local "context=$work/context" --local "dockerfile=$work/context" --opt target=$image --opt "platform=$PLATFORMS" \
		--opt "build-arg:SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH" \
		--opt "label:org.opencontainers.image.version=$VERSION" --opt "label:org.opencontainers.image.revision=$COMMIT" \
		--output "type=oci,dest=$layout,tar=false,name=$image:$VERSION,oci-mediatypes=true,compression=gzip,force-compression=true,rewrite-timestamp=true" \
		2>"$work/build.log" || { cat "$work/build.log" >&2 && exit 1; }
	echo "$image:$VERSION $(bin/regctl image digest "ocidir://$layout:$VERSION")"
	for arch in $archs; do
		bin/sbom "$image" "$VERSION" "$work/root-$image-$arch" "$work/debian-$arch.txt" >"$work/sbom.json"
		bin/regctl artifact put --subject "ocidir://$layout:$VERSION" --platform "linux/$arch" --artifact-type application/spdx+json \
			--file-media-type application/spdx+json --file-title --annotation "$created" \
			--file "$work/sbom.json" >/dev/null
		[ -z "${SIGNING_KEY:-}" ] || sign "$(bin/regctl image digest --platform "linux/$arch" "ocidir://$layout:$VERSION")" "$work/sbom.json"
	done
	[ -z "${SIGNING_KEY:-}" ] || sign "$(bin/regctl image digest "ocidir://$layout:$VERSION")"
	if [ -n "${PUSH:-}" ]; then
		bin/regctl image copy --referrers "ocidir://$layout:$VERSION" "$PUSH/$image:$VERSION"
	fi
done
