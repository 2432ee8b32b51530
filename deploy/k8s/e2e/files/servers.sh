#!/bin/sh
# servers.sh OUT REGISTRY: writes a tar of Debian with the stores of the overlay, Prometheus, and busybox as a web
# server; REGISTRY is the path of a registry program.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mmdebstrap --quiet --variant=minbase --mode=root --include=nats-server,redis-server,postgresql-15,prometheus,busybox-static \
	--customize-hook="copy-in '$2' /usr/local/bin" \
	--customize-hook="copy-in '$here/docker-entrypoint.sh' /usr/local/bin" \
	--customize-hook='chmod 755 "$1/usr/local/bin/docker-entrypoint.sh"' \
	--customize-hook='for n in 10001 10002 10003 10004; do echo "u$n:x:$n:$n::/data:/bin/sh" >>"$1/etc/passwd"; done' \
	--dpkgopt=path-exclude=/usr/bin/promtool --dpkgopt=path-exclude=/usr/share/javascript/* --dpkgopt=path-exclude=/usr/share/fonts/* \
	--dpkgopt=path-exclude=/usr/share/doc/* --dpkgopt=path-exclude=/usr/share/locale/* --dpkgopt=path-exclude=/usr/share/man/* \
	bookworm "$1"
