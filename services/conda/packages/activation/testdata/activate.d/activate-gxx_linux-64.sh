#!/bin/bash
# Sets the variables of a toolchain, and keeps those that were there.
function _file_that_is_sourced() {
    if [ -n "${BASH_SOURCE+x}" ] && [ -n "${BASH_SOURCE[0]}" ]; then
        basename "${BASH_SOURCE[0]}"
    elif [ -n "$ZSH_NAME" ]; then
        basename "$0"
    else
        echo "an unknown file"
    fi
}

function _toolchain_variables() {
  local nature=$1; shift
  local triple=$1; shift
  local thing newval from to pass

  if [ "${nature}" = "activate" ]; then
    from=""
    to="CONDA_BACKUP_"
  else
    from="CONDA_BACKUP_"
    to=""
  fi

  for pass in check apply; do
    for thing in "$@"; do
      case "${thing}" in
        *,*)
          newval=$(echo "${thing}" | sed "s,^[^\,]*\,\(.*\),\1,")
          thing=$(echo "${thing}" | sed "s,^\([^\,]*\)\,.*,\1,")
          ;;
        *)
          newval="${CONDA_PREFIX}/bin/${triple}${thing}"
          if [ ! -x "${newval}" -a "${pass}" = "check" ]; then
            echo "ERROR: there is no program ${newval}"
            return 1
          fi
          ;;
      esac
      if [ "${pass}" = "apply" ]; then
        thing=$(echo ${thing} | tr 'a-z+-.' 'A-ZX__')
        eval oldval="\$${from}$thing"
        if [ -n "${oldval}" ]; then
          eval export "${to}'${thing}'=\"${oldval}\""
        else
          eval unset '${to}${thing}'
        fi
        if [ -n "${newval}" ]; then
          eval export "'${from}${thing}=${newval}'"
        else
          eval unset '${from}${thing}'
        fi
      fi
    done
  done
  return 0
}

if [ "${CONDA_BUILD:-0}" = "1" ]; then
  CFLAGS_USED="-march=nocona -O2 -isystem ${PREFIX}/include"
else
  CFLAGS_USED="-march=nocona -mtune=haswell -ftree-vectorize -fPIC -fstack-protector-strong -O2 -pipe -isystem ${CONDA_PREFIX}/include"
fi

_toolchain_variables activate x86_64-conda-linux-gnu- c++ g++ "CXXFLAGS,-fvisibility-inlines-hidden ${CFLAGS_USED}"
if [ $? -ne 0 ]; then
  echo "ERROR: $(_file_that_is_sourced) failed" >&2
fi
unset CFLAGS_USED
