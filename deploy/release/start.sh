#!/bin/bash
# start.sh ROOT: runs the units of slipwayd in a root file system without systemd, with their users, folders and
# commands. Then it builds an image there and pulls it. test.sh calls it in new namespaces.
set -euo pipefail
root=$1
ip link set lo up
mount --bind "$root" "$root" # steps mount their own /proc, which needs a root that is a mount point
cd "$root"
echo '127.0.0.1 localhost' >"$root/etc/hosts"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
log=$root/var/log/slipway-test
mkdir -p "$log"

# directive UNIT KEY: prints a setting of the unit, with continuation lines joined.
directive() { sed -e ':a' -e '/\\$/N' -e 's/\\\n *//' -e 'ta' "$root/usr/lib/systemd/system/$1.service" | sed -n "s/^$2=//p"; }

start() { # UNIT
	local user command
	user=$(directive "$1" User)
	command=$(directive "$1" ExecStart)
	for dir in "run $(directive "$1" RuntimeDirectory)" "var/lib $(directive "$1" StateDirectory)"; do
		[ -n "${dir#* }" ] || continue
		chroot "$root" install -d -m "$([ "${dir% *}" = run ] && echo 755 || directive "$1" StateDirectoryMode)" -o "${user:-root}" -g "${user:-root}" "/${dir% *}/${dir#* }"
	done
	# shellcheck disable=SC2086
	(umask "$(directive "$1" UMask | grep . || echo 022)" && exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot --userspec="${user:-root}" "$root" $command) >"$log/$1" 2>&1 &
}

eventually() { # COMMAND…
	for _ in $(seq 300); do
		"$@" >/dev/null 2>&1 && return
		sleep 0.2
	done
	tail -n 20 "$log"/* >&2
	echo "never: $*" >&2
	exit 1
}

start slipway-buildkitd
eventually test -S "$root/run/slipway-buildkit/buildkitd.sock"
start slipwayd
eventually chroot "$root" slipway info
[ "$(stat -c %u "/proc/$(pgrep -of '^/usr/bin/slipwayd serve')")" != 0 ] || { echo 'slipwayd is root' >&2 && exit 1; }
mkdir -p "$root/tmp/context"
cp "$root/tmp/busybox" "$root/tmp/context/"
cat >"$root/tmp/context/Dockerfile" <<'D'
FROM scratch
COPY busybox /bin/sh
RUN ["/bin/sh", "-c", "id -u >/made"]
D
built() { chroot "$root" slipway build -f /tmp/context/Dockerfile --context /tmp/context --await; }
for _ in $(seq 50); do # until its worker has registered
	image=$(built 2>"$log/build") && break
	sleep 0.2
done
[ -n "${image:-}" ] || { tail -n 30 "$log"/* >&2 && exit 1; }
path=${image#*/}
curl -fsS -H 'Accept: application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json' \
	"http://127.0.0.1:9090/v2/${path%:*}/manifests/${path##*:}" | grep -q '"schemaVersion"' || { echo "$image cannot be pulled" >&2 && exit 1; }
echo "built $image"
