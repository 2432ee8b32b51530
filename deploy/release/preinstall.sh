#!/bin/sh
# The user that slipwayd runs as. It stays when the package goes: files may be its.
set -e
getent group slipway >/dev/null || groupadd --system slipway
getent passwd slipway >/dev/null ||
	useradd --system --gid slipway --home-dir /var/lib/slipway --no-create-home --shell /usr/sbin/nologin slipway
