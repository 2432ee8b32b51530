#!/bin/bash
export NCARG_ROOT=$CONDA_PREFIX
export NCARG_LIB="$NCARG_ROOT/lib/ncarg" NCARG_DATABASE="${NCARG_ROOT}/lib/ncarg/database"
__old=${MANPATH-unset}
if [ $__old != unset ]; then export MANPATH="$NCARG_ROOT/man:$MANPATH"; else export MANPATH="$NCARG_ROOT/man:"; fi
unset __old
