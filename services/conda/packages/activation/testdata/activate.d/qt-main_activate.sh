set +u
if [[ "$QT_XCB_GL_INTEGRATION" == "" ]] || [[ $QT_XCB_GL_INTEGRATION == none* ]]; then
  export QT_XCB_GL_INTEGRATION=none
fi
if [[ "${CONDA_PREFIX}" =~ ^/.*[a-z]+ ]]; then export QT_PREFIX_IS=absolute; fi
export QT_PLUGIN_PATH=$QT_PLUGIN_PATH"${CONDA_PREFIX}/plugins"
