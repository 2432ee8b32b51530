#!/usr/bin/env sh
# The variables of a toolchain must not reach R CMD config.
if test -n "$R_HOME"; then
  R_HOME_CONDA_BACKUP="$R_HOME"
  export R_HOME_CONDA_BACKUP
fi
export R_HOME="${CONDA_PREFIX}/lib/R"
test -f "${CONDA_PREFIX}/lib/R/etc/Renviron" && export R_ENVIRON="${CONDA_PREFIX}/lib/R/etc/Renviron"
[ -x "${CONDA_PREFIX}/bin/R" ] && export R_PROGRAM=yes || export R_PROGRAM=no
unset R_PROFILE
