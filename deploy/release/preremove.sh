#!/bin/sh
# Debian passes "remove" or "upgrade"; RPM passes the number of remaining versions.
set -e
case ${1:-remove} in
remove | purge | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now slipwayd.service slipway-buildkitd.service
	fi
	;;
esac
