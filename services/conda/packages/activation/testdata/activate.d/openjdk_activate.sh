# Keeps the JAVA_HOME of the user, and uses the environment's own.
export _CONDA_SAVED_JAVA_HOME="${JAVA_HOME:-}"
export JAVA_HOME="${CONDA_PREFIX}/lib/jvm"
export _CONDA_SAVED_JAVA_LD_LIBRARY_PATH=${JAVA_LD_LIBRARY_PATH:-}
export JAVA_LD_LIBRARY_PATH=$JAVA_HOME/lib/server
