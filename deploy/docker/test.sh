#!/bin/sh
# test.sh: makes the images twice, in different places and with an empty BuildKit each, and fails unless their digests
# are the same. Root; PLATFORMS as in image.sh.
set -eu
cd "$(dirname "$0")/../.."
mkdir -p bin
export OUT
for OUT in bin/images bin/images-again; do
	PUSH='' deploy/docker/image.sh >"$OUT.digests"
done
cat bin/images.digests
cmp bin/images.digests bin/images-again.digests
rm -rf bin/images-again bin/images-again.digests
echo 'test.sh: both times the same'
