#!/bin/sh
# Creates the user of slipwayd. It remains after the package is removed, since it may own files.
set -e
getent group slipway >/dev/null || groupadd --system slipway
getent passwd slipway >/dev/null ||
	useradd --system --gid slipway --home-dir /var/lib/slipway --no-create-home --shell /usr/sbin/nologin slipway
