#!/bin/sh
# missing.sh: lists which build dependencies of bin/runc (gcc, pkg-config, libseccomp's headers) are missing, and the
# command that installs them. It fails if one is missing.
lacks=
command -v gcc >/dev/null || lacks="$lacks gcc"
command -v pkg-config >/dev/null || lacks="$lacks pkg-config"
pkg-config --exists libseccomp 2>/dev/null || lacks="$lacks libseccomp"
[ -n "$lacks" ] || exit 0

as=
[ "$(id -u)" = 0 ] || as='sudo '
if command -v apt-get >/dev/null; then
	how="${as}apt-get install --yes gcc libc6-dev pkg-config libseccomp-dev"
elif command -v dnf >/dev/null; then
	how="${as}dnf install --assumeyes gcc pkgconf-pkg-config libseccomp-devel"
elif command -v zypper >/dev/null; then
	how="${as}zypper --non-interactive install gcc pkg-config libseccomp-devel"
elif command -v pacman >/dev/null; then
	how="${as}pacman --sync --noconfirm gcc pkgconf libseccomp"
elif command -v apk >/dev/null; then
	how="${as}apk add gcc musl-dev pkgconf libseccomp-dev"
else
	how='the package manager of this machine installs them: gcc, pkg-config, and libseccomp with its headers'
fi
cat <<TEXT
bin/runc was not made: this machine lacks$lacks. Then \`make\` again:
  $how
Without it builds take the machine's own runc, if that is 1.2.8, 1.3.3, 1.4.0 or newer; all else works in any case.
TEXT
exit 1
