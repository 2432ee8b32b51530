export LIBGL_DRIVERS_PATH="$CONDA_PREFIX/lib/dri"
for v in LIBGL_DEBUG MESA_GL_VERSION_OVERRIDE LIBGL_DRIVERS_PATH; do
  export "_VTK_SAVED_${v}=${!v}"
done
unset v
