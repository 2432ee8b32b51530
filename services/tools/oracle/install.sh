#!/bin/sh
# Installs the programs that services/e2e compares images with: py-rattler, and conda from
# its artifact.
#
#   install.sh ARTIFACT FOLDER
#
# ARTIFACT is services/e2e/testdata/judge/conda-23.10.0-*.conda.
set -eu
artifact=$1
folder=$2
rm -rf "$folder"
mkdir -p "$folder/conda"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check --retries 1 --timeout 10 \
	py-rattler==0.28.0 python-sat==1.9.dev17 boltons==26.2.0 tqdm==4.70.1 pluggy==1.7.0 ruamel.yaml==0.19.1 \
	requests==2.34.2 packaging==26.4 platformdirs==4.14.8 distro==1.9.0 zstandard==0.25.0 \
	conda-package-handling==2.6.0 conda-package-streaming==0.13.0
"$folder/venv/bin/python" - "$artifact" "$folder/conda" <<'END'
import io
import sys
import tarfile
import zipfile

import zstandard

artifact = zipfile.ZipFile(sys.argv[1])
name = next(n for n in artifact.namelist() if n.startswith("pkg-"))
raw = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(artifact.read(name))).read()
archive = tarfile.open(fileobj=io.BytesIO(raw))
for member in archive.getmembers():
    before, found, path = member.name.partition("site-packages/")
    if found and path.startswith("conda/") and member.isfile():
        member.name = path
        archive.extract(member, sys.argv[2], filter="data")
END
touch "$folder/installed"
