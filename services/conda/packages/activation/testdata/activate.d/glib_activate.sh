export GSETTINGS_SCHEMA_DIR_CONDA_BACKUP="${GSETTINGS_SCHEMA_DIR:-}"
export GSETTINGS_SCHEMA_DIR="$CONDA_PREFIX/share/glib-2.0/schemas"
if [ -n "$XDG_DATA_DIRS" ]; then
    export XDG_DATA_DIRS_CONDA_BACKUP=$XDG_DATA_DIRS
    export XDG_DATA_DIRS="${XDG_DATA_DIRS}:${CONDA_PREFIX}/share"
else
    export XDG_DATA_DIRS=${CONDA_PREFIX}/share:/usr/local/share:/usr/share
fi
