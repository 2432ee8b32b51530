#!/bin/sh
# Prints how to start the service. The operator starts it the first time, after a look at the settings; a running
# service is restarted.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart slipway-buildkitd.service slipwayd.service
fi
cat <<'TEXT'
slipwayd is installed. Its settings are in /etc/slipway/slipwayd.yaml. To start it now and at each boot:
  systemctl enable --now slipway-buildkitd slipwayd
The first user's access token is then in /var/lib/slipway/admin-token. To check the installation:
  slipwayd doctor --config /etc/slipway/slipwayd.yaml
TEXT
