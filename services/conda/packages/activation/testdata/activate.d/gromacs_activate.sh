# Chooses the build of GROMACS.
function _gromacs_bin_dir() {
  local simdflavor
  simdflavor=""
  uname -m
}
if [ -d "${CONDA_PREFIX}/bin.AVX2_256" ] ; then
  case $(uname -m) in
    x86_64) flavour=.AVX2_256;;
    *) flavour=;;
  esac
  export GMXBIN="${CONDA_PREFIX}/bin${flavour}"
else
  export GMXBIN="${CONDA_PREFIX}/bin"
fi
export GMXDATA="${CONDA_PREFIX}/share/gromacs"
GMXPREFIX=$CONDA_PREFIX ; export GMXPREFIX
PATH=${GMXBIN}:${PATH}
