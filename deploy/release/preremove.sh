#!/bin/sh
# Debian says "remove" or "upgrade", RPM how many versions are left.
set -e
case ${1:-remove} in
remove | purge | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now slipwayd.service slipway-buildkitd.service
	fi
	;;
esac
