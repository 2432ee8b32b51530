#!/bin/sh
# Prints how to start the service at its first installation: the operator starts it, after a look at the settings. At
# an upgrade a running service is restarted.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart slipway-buildkitd.service slipwayd.service
fi
# Debian passes "configure" and the version that was configured before, if any; RPM passes the number of versions.
case "${1:-configure} ${2:-}" in
"configure " | "1 "*) ;;
*) exit 0 ;;
esac
cat <<'TEXT'
slipwayd is installed. Its settings are in /etc/slipway/slipwayd.yaml. To start it now and at each boot:
  systemctl enable --now slipway-buildkitd slipwayd
The first user's access token is then in /var/lib/slipway/admin-token. To check the installation:
  slipwayd doctor --config /etc/slipway/slipwayd.yaml
TEXT
