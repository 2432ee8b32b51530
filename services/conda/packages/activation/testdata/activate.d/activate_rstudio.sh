export RSTUDIO_WHICH_R="$(dirname "$CONDA_PREFIX/bin/R")/R"
_here="$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)"
export RSTUDIO_PREFIX=$_here
unset _here
