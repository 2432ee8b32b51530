if [ "${GOROOT}" ]; then export _CONDA_BACKUP_GOROOT="${GOROOT}"; fi
export GOROOT="${CONDA_PREFIX}/go"
for gover in "${CONDA_PREFIX}/go/VERSION" "${CONDA_PREFIX}/go/version"; do
  if [[ -f "$gover" ]]; then export GO_VERSION_FILE="${gover##*/}"; break; fi
done
unset gover
export GOTOOLCHAIN="local" CGO_ENABLED=${CGO_ENABLED:=1}
