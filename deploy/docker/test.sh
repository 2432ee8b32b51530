#!/bin/sh
# test.sh: builds the images twice, in different folders and with an empty BuildKit each time, and fails unless the
# digests are equal. Needs root; PLATFORMS as in image.sh.
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
