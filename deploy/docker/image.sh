#!/usr/bin/env bash
# image.sh [pin | runc]: makes the two images as OCI layouts, bin/images/slipwayd and bin/images/slipway-builder.
#
#   slipwayd         every role: one static program, the certificates of public authorities, and nothing else
#   slipway-builder  that, with buildkitd, buildctl, slipway-runc, runc, rootlesskit and newuidmap: the builder role, and BuildKit
#                    without root
#
# Go programs are compiled here, for every platform, from sums in go.sum; what is C comes from Debian, packages pinned
# in debian.txt (`image.sh pin` takes today's). runc is both: it is compiled with Debian's gcc and linked with its
# libseccomp, of packages pinned there too, whatever this machine has. Our own BuildKit puts the images together: the
# same commit and the same packages give the same digests. Each platform's image has its list of parts (SPDX) as a
# referrer. `image.sh runc` makes OUT/runc-ARCH alone, for packages.
#
# VERSION, PLATFORMS (linux/amd64,linux/arm64), PUSH (registry/path to copy them to), OUT (bin/images). Root, on Debian
# for amd64 with mmdebstrap, libcap2-bin and a runc.
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

# packages NAME ARCH PACKAGES: Debian packages, unpacked, in $work/NAME; their names and sums beside it.
packages() {
	mmdebstrap --quiet --variant=extract --mode=root --architectures="$2" --include="$3" \
		--extract-hook="cd \"\$1/var/cache/apt/archives\" && sha256sum *.deb >'$work/$1.txt'" bookworm "$work/$1"
}

# programs ARCH: what is Go, for both images.
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

# triplet ARCH: what gcc calls it.
triplet() {
	case $1 in
	amd64) echo x86_64-linux-gnu ;;
	arm64) echo aarch64-linux-gnu ;;
	esac
}

# runtime ARCH: runc, compiled in the tree of gcc, where nothing of this machine is but Go and what it has fetched.
runtime() {
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

# skeleton ROOT ARCH: what both images begin with.
skeleton() {
	mkdir -p "$1"/{etc/ssl/certs,usr/bin,usr/sbin,tmp,data,run}
	chmod 1777 "$1/tmp"
	chown 65532:65532 "$1/data"
	echo 'slipway:x:65532:65532:slipway:/data:/sbin/nologin' >"$1/etc/passwd"
	echo 'slipway:x:65532:' >"$1/etc/group"
	find "$work/debian-$2/usr/share/ca-certificates/mozilla" -name '*.crt' | sort | xargs cat >"$1/etc/ssl/certs/ca-certificates.crt"
	install -m 755 "$work/bin-$2/slipwayd" "$1/usr/bin/"
}

# builder ROOT ARCH: what a builder has besides.
builder() {
	local from=$work/debian-$2 dir file
	install -m 755 "$work/bin-$2/buildkitd" "$work/bin-$2/buildctl" "$work/bin-$2/slipway-runc" "$work/bin-$2/runc" "$1/usr/bin/"
	install -m 755 "$from"/usr/bin/{rootlesskit,newuidmap,newgidmap} "$1/usr/bin/"
	# Debian's are setuid root, which a container without privileges refuses.
	setcap cap_setuid+ep "$1/usr/bin/newuidmap"
	setcap cap_setgid+ep "$1/usr/bin/newgidmap"
	for dir in lib lib64 usr/lib; do # not every architecture has all
		[ ! -d "$from/$dir" ] || (cd "$from" && find "$dir" ! -type d -name '*.so*' ! -path '*/gconv/*' ! -path '*/security/*' -print0 |
			xargs -0r cp -d --parents -t "$1")
	done
	for file in subuid subgid; do echo 'slipway:100000:65536' >"$1/etc/$file"; done
	for dir in state socket; do install -d -m 700 -o 65532 -g 65532 "$1/$dir"; done
}

# packed ROOT: a tar that is the same for the same files.
packed() {
	tar -C "$1" --format=pax --sort=name --mtime="@$SOURCE_DATE_EPOCH" --numeric-owner --xattrs \
		--xattrs-include=security.capability --pax-option='exthdr.name=%d/%f,delete=atime,delete=ctime' -cf - .
}

# pinned: the packages are those of debian.txt.
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
		if ! diff <(grep "^$tree " $here/debian.txt) <(grep "^$tree " "$work/debian.txt") >&2; then
			echo "image.sh: Debian's packages are not those of debian.txt any more (above); \`$here/image.sh pin\` takes them" >&2
			exit 1
		fi
	done
}

# start: our BuildKit, for as long as this runs.
start() {
	[ -x bin/buildkitd ] || make builder >&2
	printf '[worker.containerd]\n  enabled = false\n[worker.oci]\n  snapshotter = "native"\n' >"$work/buildkitd.toml"
	PATH="$PWD/bin:$PATH:/usr/sbin" bin/buildkitd --config "$work/buildkitd.toml" --root "$work/buildkit" --addr "unix://$work/buildkitd.sock" \
		--otel-socket-path "$work/otel.sock" >"$work/buildkitd.log" 2>&1 &
	daemon=$!
	for _ in $(seq 600); do
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
}

images=yes
[ "${1:-}" != runc ] || images=
packages cc amd64 gcc,gcc-aarch64-linux-gnu,pkgconf
for arch in $archs; do
	[ -z "$images" ] || packages "debian-$arch" "$arch" uidmap,rootlesskit,ca-certificates
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
			--file-media-type application/spdx+json --file-title --annotation "org.opencontainers.image.created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)" \
			--file "$work/sbom.json" >/dev/null
	done
	if [ -n "${PUSH:-}" ]; then
		bin/regctl image copy --referrers "ocidir://$layout:$VERSION" "$PUSH/$image:$VERSION"
	fi
done
