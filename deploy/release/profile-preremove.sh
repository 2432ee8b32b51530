#!/bin/sh
# Unloads and deletes the AppArmor profile. Debian passes "remove" or "upgrade"; RPM passes the number of remaining versions.
set -e
case ${1:-remove} in
remove | purge | 0) ;;
*) exit 0 ;;
esac
[ -e /etc/apparmor.d/slipway ] || exit 0
if [ "$(cat /sys/module/apparmor/parameters/enabled 2>/dev/null)" = Y ] && command -v apparmor_parser >/dev/null; then
	apparmor_parser --remove /etc/apparmor.d/slipway || true # not loaded
fi
rm -f /etc/apparmor.d/slipway
