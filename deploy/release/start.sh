#!/bin/bash
# start.sh ROOT: boots systemd in a root file system in which the packages are installed, enables the units of slipwayd,
# and builds an image there. Then it reboots and pulls the image. The machine has a network of its own. test.sh calls
# it in new namespaces.
set -euo pipefail
root=$1
log=$(dirname "$root")/boot.log
cd "$root"
ip link set lo up
mount -t tmpfs tmpfs /run # systemd-nspawn registers machines there
echo '127.0.0.1 localhost' >etc/hosts
machine=

# boot starts the machine and waits for its services. Build steps need control groups of version 2, and the system calls
# of key rings.
boot() {
	SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 systemd-nspawn --quiet --directory="$root" --machine=slipway-test --boot --register=no --keep-unit \
		--capability=all --system-call-filter='@keyring bpf perf_event_open' --resolv-conf=off --console=passive </dev/null >>"$log" 2>&1 &
	nspawn=$!
	eventually booted
}

# init finds the first process of the machine.
init() { machine=$(pgrep -P "$nspawn" | head -n 1) && [ -n "$machine" ] && [ "$(readlink "/proc/$machine/ns/pid")" != "$(readlink /proc/self/ns/pid)" ]; }

# booted finds the first process each time, since systemd-nspawn starts others before it.
booted() { init && inside systemctl is-system-running; }

# inside COMMAND…: runs a command in the machine, as root.
inside() { nsenter --target "$machine" --mount --uts --ipc --net --pid --cgroup --root --wd env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }

no() {
	inside journalctl --boot --no-pager --lines=40 >&2 || tail -n 20 "$log" >&2
	echo "$*" >&2
	exit 1
}

eventually() { # COMMAND…
	for _ in $(seq 300); do
		"$@" >/dev/null 2>&1 && return
		sleep 0.2
	done
	no "never: $*"
}

# stop stops all units and powers the machine off.
stop() {
	kill -s RTMIN+4 "$machine"
	wait "$nspawn" || no 'the machine does not power off'
}

boot
inside systemctl --quiet enable --now slipway-buildkitd slipwayd
eventually inside slipway info
[ "$(inside stat -c %u "/proc/$(inside systemctl show --value --property=MainPID slipwayd)")" != 0 ] || no 'slipwayd is root'
mkdir -p root/context
cp tmp/busybox root/context/
cat >root/context/Dockerfile <<'D'
FROM scratch
COPY busybox /bin/sh
RUN ["/bin/sh", "-c", "id -u >/made"]
D
built() { inside slipway build -f /root/context/Dockerfile --context /root/context --await; }
for _ in $(seq 50); do # until its worker has registered
	image=$(built 2>>"$log") && break
	sleep 0.2
done
[ -n "${image:-}" ] || no 'no image was built'
path=${image#*/}
pulled() {
	curl -fsS -H 'Accept: application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json' \
		"http://127.0.0.1:9090/v2/${path%:*}/manifests/${path##*:}" | grep '"schemaVersion"'
}
eventually pulled
inside systemctl reload slipwayd || no 'slipwayd cannot be reloaded'
eventually pulled
stop
boot
eventually pulled
for unit in slipwayd slipway-buildkitd; do
	inside systemctl --quiet is-active $unit || no "$unit does not run after a reboot"
done
[ -z "$(inside systemctl --failed --quiet --no-legend)" ] || no 'units have failed'
stop
echo "built $image, and pulled it after a reboot"
