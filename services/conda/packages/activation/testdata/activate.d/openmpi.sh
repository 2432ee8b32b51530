# Open MPI finds itself by this.
export OPAL_PREFIX="${CONDA_PREFIX}"
if [ -z "${OMPI_MCA_plm_rsh_agent}" ] && ! [ -x "$CONDA_PREFIX/bin/ssh" ]; then
	export OMPI_MCA_plm_rsh_agent=""
fi
export OMPI_MCA_opal_warn_on_missing_libcuda=0
export OMPI_MCA_btl='^openib' ; export OMPI_NOTE="a \"quoted\" \$word and \`tick\`"
