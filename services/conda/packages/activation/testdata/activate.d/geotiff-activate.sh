if [ -n "${GEOTIFF_CSV}" ]; then
  export _CONDA_SET_GEOTIFF_CSV=$GEOTIFF_CSV
fi
[ -d ${CONDA_PREFIX}/share/epsg_csv ] && export GEOTIFF_CSV=${CONDA_PREFIX}/share/epsg_csv
if [ -d ${CONDA_PREFIX}/Library/share/epsg_csv ]; then export GEOTIFF_CSV=${CONDA_PREFIX}/Library/share/epsg_csv; fi
