#!/bin/sh
# Says how to start it. A first start is the operator's, after a look at the settings; what runs already is started anew.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart slipway-buildkitd.service slipwayd.service
fi
cat <<'TEXT'
slipwayd is installed. Its settings are in /etc/slipway/slipwayd.yaml; to start it, now and whenever the machine does:
  systemctl enable --now slipway-buildkitd slipwayd
Then the first user's access token is in /var/lib/slipway/admin-token, and `slipwayd doctor --config /etc/slipway/slipwayd.yaml`
says whether anything is missing.
TEXT
