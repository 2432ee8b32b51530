#!/bin/bash
[[ -z "${CUDA_HOME+x}" ]] || export CUDA_HOME_CONDA_NVCC_BACKUP="${CUDA_HOME}"
[[ -n "${CUDA_HOME:-}" ]] || export CUDA_HOME="${CONDA_PREFIX}"

case "$(uname -m)" in
  x86_64)  targets="x86_64-linux" ;;
  aarch64|arm64) targets="sbsa-linux" ;;
  ppc64le) targets="ppc64le-linux" ;;
esac
if [ "${CONDA_BUILD:-0}" = "1" ]; then
  export NVCC_PREPEND_FLAGS="${NVCC_PREPEND_FLAGS} -ccbin=${CXX}"
elif [ -n "${CXX:-}" ]; then
  export NVCC_PREPEND_FLAGS="${NVCC_PREPEND_FLAGS:-} -ccbin=${CXX}"
fi
export CUDA_TARGET_DIR=${CONDA_PREFIX}/targets/${targets}
export CFLAGS="${CFLAGS:-} -I${CONDA_PREFIX}/targets/$targets/include"
unset targets
