if [ -n "${UDUNITS2_XML_PATH+x}" ]; then
    export _CONDA_SET_UDUNITS2_XML_PATH="$UDUNITS2_XML_PATH"
fi
if test -e "$CONDA_PREFIX/share/udunits/udunits2.xml"; then
    export UDUNITS2_XML_PATH="$CONDA_PREFIX/share/udunits/udunits2.xml"
fi
