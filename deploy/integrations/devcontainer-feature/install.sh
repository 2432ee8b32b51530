#!/bin/sh
# install.sh: downloads the release VERSION from the folder RELEASES over https, verifies it with SHA256 or, if that is
# empty, with SHA256SUMS, and installs slipway, its shell completions and its manual pages into PREFIX (/usr/local). The
# variables are the options of the feature. If curl is missing, it is installed with apt-get, apk or dnf.
set -eu
PREFIX=${PREFIX:-/usr/local}
fail() {
	echo "install.sh: $*" >&2
	exit 1
}
[ -n "${RELEASES:-}" ] || fail 'the option releases is missing: the address of the folder with the files of a release'
[ -n "${VERSION:-}" ] || fail 'the option version is missing, e.g. 0.1.0'
case $(uname -m) in
x86_64) architecture=amd64 ;;
aarch64 | arm64) architecture=arm64 ;;
*) fail "there is no slipway for $(uname -m)" ;;
esac
if ! command -v curl >/dev/null; then
	if command -v apt-get >/dev/null; then
		apt-get update
		DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends ca-certificates curl
		rm -rf /var/lib/apt/lists/*
	elif command -v apk >/dev/null; then
		apk add --no-cache ca-certificates curl
	elif command -v dnf >/dev/null; then
		dnf install --assumeyes curl tar gzip
	else
		fail 'curl is missing; install it in the image'
	fi
fi
name=slipway_${VERSION}_linux_$architecture
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
protocol==https
case $RELEASES in http://127.0.0.1:*) protocol==http ;; esac
download() {
	curl --proto "$protocol" --proto-redir "$protocol" --fail --silent --show-error --location --retry 3 --max-time 300 \
		--output "$1" "${RELEASES%/}/$1"
}
download "$name.tar.gz"
if [ -n "${SHA256:-}" ]; then
	echo "$SHA256  $name.tar.gz" >own.sum
else
	download SHA256SUMS
	grep -F "  $name.tar.gz" SHA256SUMS >own.sum || fail "SHA256SUMS does not list $name.tar.gz"
fi
sha256sum -c own.sum >/dev/null || fail "the digest of $name.tar.gz is wrong"
tar -xzf "$name.tar.gz"
# place FILE DIRECTORY NAME: installs a file of the release.
place() {
	mkdir -p "$PREFIX/$2"
	cp "$name/$1" "$PREFIX/$2/$3"
}
place slipway bin slipway
chmod 755 "$PREFIX/bin/slipway"
place completion/slipway.bash share/bash-completion/completions slipway
place completion/slipway.zsh share/zsh/site-functions _slipway
place completion/slipway.fish share/fish/vendor_completions.d slipway.fish
mkdir -p "$PREFIX/share/man/man1"
cp "$name"/man/*.1.gz "$PREFIX/share/man/man1/"
"$PREFIX/bin/slipway" version
