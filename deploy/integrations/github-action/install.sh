#!/usr/bin/env bash
# install.sh: downloads the release VERSION from the folder RELEASES, verifies it with SHA256SUMS, and adds slipway to
# the PATH of the following steps. RUNNER_TEMP and GITHUB_PATH are those of GitHub Actions.
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
for file in "$name.tar.gz" SHA256SUMS; do
	curl --fail --silent --show-error --location --retry 3 --max-time 300 --output "$file" "${RELEASES%/}/$file"
done
# grep fails if the file is not listed: --ignore-missing would accept that if another file matched.
grep -F "  $name.tar.gz" SHA256SUMS >own.sum
if command -v sha256sum >/dev/null; then
	sha256sum --check --quiet own.sum
else # macOS
	shasum --algorithm 256 --check --quiet own.sum
fi
tar -xzf "$name.tar.gz"
echo "$folder/$name" >>"$GITHUB_PATH"
"$folder/$name/slipway" version
