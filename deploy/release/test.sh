#!/usr/bin/env bash
# test.sh: builds the release of this machine's architecture twice and compares the files. Then it installs the
# packages in a clean Debian, boots systemd there, builds an image, and pulls it after a reboot. Needs root,
# mmdebstrap, iproute2, curl, procps, busybox-static, systemd and systemd-container; runc is bin/runc. KEEP is a folder for
# the results.
set -euo pipefail
cd "$(dirname "$0")/../.."
arch=$(go env GOARCH)
work=${KEEP:-$(mktemp -d)}
[ -n "${KEEP:-}" ] || trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
say() { printf '%s: %s\n' "$(date +%T)" "$*"; }
no() { echo "test.sh: $*" >&2 && exit 1; }

mkdir -p "$work/runc"
cp bin/runc "$work/runc/runc-$arch"
for time in once again; do
	say "the release, $time"
	RUNC=$work/runc PLATFORMS=linux/$arch OUT=$work/$time deploy/release/release.sh >"$work/$time.log" 2>&1 || { cat "$work/$time.log" >&2 && exit 1; }
done
cmp "$work/once/SHA256SUMS" "$work/again/SHA256SUMS" || no 'the same commit gives other bytes'
(cd "$work/once" && sha256sum --check --quiet SHA256SUMS)

say 'a clean root'
root=$work/root
[ -d "$root/usr" ] || mmdebstrap --quiet --variant=minbase --mode=root --include=ca-certificates,libseccomp2,systemd-sysv,dbus bookworm "$root"
cp "$work"/once/*.deb "$root/tmp/"
chroot "$root" sh -c 'dpkg -i /tmp/slipway_*.deb /tmp/slipwayd_*.deb' >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log" >&2 && exit 1; }
grep -q 'slipwayd is installed' "$work/dpkg.log" || no 'the installation does not print how to start the service'
chroot "$root" sh -c 'dpkg -i /tmp/slipwayd_*.deb' >"$work/upgrade.log" 2>&1 || { cat "$work/upgrade.log" >&2 && exit 1; }
grep -q 'slipwayd is installed' "$work/upgrade.log" && no 'an upgrade prints the text of an installation'

[ "$(stat -c '%a %U' "$root/etc/slipway/environment")" = '600 root' ] || no 'others can read the settings that are secret'

dpkg-deb --contents "$work"/once/slipway_*.deb | grep -q '/usr/share/man/man1/slipway-conda.1.gz' || no 'the package has no manual pages'
dpkg-deb --fsys-tarfile "$work"/once/slipway_*.deb | tar -xO ./usr/share/man/man1/slipway.1.gz | gzip -d | grep -q '^\.TH "SLIPWAY" 1' || no 'the manual pages are not readable'

say 'the AppArmor profile'
profile=$root/etc/apparmor.d/slipway
[ ! -e "$profile" ] || no 'an AppArmor that rejects the profile gets it'
mkdir -p "$root/etc/apparmor.d/abi" && touch "$root/etc/apparmor.d/abi/4.0"
chroot "$root" sh -c 'dpkg -i /tmp/slipway_*.deb' >"$work/profile.log" 2>&1 || { cat "$work/profile.log" >&2 && exit 1; }
grep -q 'userns,' "$profile" || no 'AppArmor 4.0 does not get the profile'

say 'the units'
for unit in slipwayd slipway-buildkitd; do
	systemd-analyze verify --man=no --root="$root" "$unit.service" 2>&1 | grep -E 'Unknown|parse|gnoring|nvalid|not executable' >&2 && no "systemd takes $unit.service otherwise than it is meant"
done
systemd-analyze security --offline=yes --no-pager --threshold=20 --root="$root" slipwayd.service >"$work/exposure" || { tail -3 "$work/exposure" >&2 && no 'slipwayd.service may do more than it needs'; }

command -v systemd-nspawn >/dev/null || no 'systemd-container is missing'
say 'systemd, booted twice'
cp /bin/busybox "$root/tmp/" 2>/dev/null || no 'busybox-static is missing'
unshare --mount --propagation private --pid --fork --kill-child --mount-proc --net --ipc deploy/release/start.sh "$root" || no 'they do not work (above)'

say 'removed'
chroot "$root" dpkg -r slipway slipwayd >/dev/null 2>&1
[ ! -e "$profile" ] || no 'a removal leaves the AppArmor profile'
[ ! -e "$root/usr/bin/slipwayd" ] && [ -e "$root/etc/slipway/slipwayd.yaml" ] || no 'a removal takes the programs and leaves the settings'
say 'as it should be'
