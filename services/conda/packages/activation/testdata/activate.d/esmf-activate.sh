if [ -n "${ESMFMKFILE+x}" ]; then
   export _CONDA_SET_ESMFMKFILE="${ESMFMKFILE}"
fi
if ! [ -f "${CONDA_PREFIX}/lib/esmf.mk" ] ; then
  echo "esmf.mk is missing" 1>&2
else
  ESMFMKFILE="${CONDA_PREFIX}"/lib/esmf.mk
  export ESMFMKFILE
fi
