#!/bin/sh
# Installs and loads the AppArmor profile. AppArmor before 4.0 does not know its rule and rejects the file; it does not restrict user
# namespaces either.
set -e
[ -e /etc/apparmor.d/abi/4.0 ] || exit 0
install -m 644 /usr/share/slipway/apparmor.d/slipway /etc/apparmor.d/slipway
if [ "$(cat /sys/module/apparmor/parameters/enabled 2>/dev/null)" = Y ] && command -v apparmor_parser >/dev/null; then
	apparmor_parser --replace --write-cache /etc/apparmor.d/slipway ||
		echo 'slipway: the AppArmor profile /etc/apparmor.d/slipway could not be loaded; `slipway doctor` reports whether it is needed' >&2
fi
