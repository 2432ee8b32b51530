#!/bin/bash
if [[ -n "${GDAL_DATA:-}" ]]; then
  export _CONDA_SET_GDAL_DATA=$GDAL_DATA
fi
if [ -d "${CONDA_PREFIX}/share/gdal" ]; then
  export GDAL_DATA="${CONDA_PREFIX}/share/gdal"
elif [ -d "$CONDA_PREFIX/Library/share/gdal" ]; then
  export GDAL_DATA="$CONDA_PREFIX/Library/share/gdal"
fi
if [[ -n "$GDAL_DRIVER_PATH" ]]; then
  export _CONDA_SET_GDAL_DRIVER_PATH=$GDAL_DRIVER_PATH
fi
if [[ -d $CONDA_PREFIX/lib/gdalplugins ]]; then
  export GDAL_DRIVER_PATH=$CONDA_PREFIX/lib/gdalplugins
  # a file with a number says which driver's plugins there are
  for p in "$CONDA_PREFIX"/lib/gdalplugins/*.so; do
    GDAL_PLUGINS="${GDAL_PLUGINS:+$GDAL_PLUGINS,}$(basename "$p" .so)"
  done
  export GDAL_PLUGINS
fi
export CPL_ZIP_ENCODING=UTF-8
