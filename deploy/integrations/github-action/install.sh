#!/usr/bin/env bash
# install.sh: downloads the release VERSION from the folder RELEASES over https, verifies it with SHA256 or, if that is
# empty, with SHA256SUMS, and adds slipway to the PATH of the following steps. RUNNER_TEMP and GITHUB_PATH are those of
# GitHub Actions.
set -euo pipefail
os=$(uname -s | tr '[:upper:]' '[:lower:]')
case $(uname -m) in
x86_64) architecture=amd64 ;;
aarch64 | arm64) architecture=arm64 ;;
*)
	echo "There is no slipway for $(uname -m)" >&2
	exit 1
	;;
esac
name=slipway_${VERSION}_${os}_$architecture
folder=$RUNNER_TEMP/slipway-$VERSION
mkdir -p "$folder"
cd "$folder"
protocol==https
if [[ $RELEASES == http://127.0.0.1:* ]]; then
	protocol==http
fi
download() {
	curl --proto "$protocol" --proto-redir "$protocol" --fail --silent --show-error --location --retry 3 --max-time 300 \
		--output "$1" "${RELEASES%/}/$1"
}
download "$name.tar.gz"
if [[ -n $SHA256 ]]; then
	echo "$SHA256  $name.tar.gz" >own.sum
else
	download SHA256SUMS
	if ! grep -F "  $name.tar.gz" SHA256SUMS >own.sum; then
		echo "SHA256SUMS does not list $name.tar.gz" >&2
		exit 1
	fi
fi
if command -v sha256sum >/dev/null; then
	sha256sum --check --quiet own.sum
else # macOS
	shasum --algorithm 256 --check --quiet own.sum
fi
tar -xzf "$name.tar.gz"
echo "$folder/$name" >>"$GITHUB_PATH"
"$folder/$name/slipway" version
