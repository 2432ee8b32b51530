if [ -n "${ZSH_VERSION:-}" ]; then
  export EXTRA_SHELL=zsh
elif [ "$CONDA_DEFAULT_ENV" != "${CONDA_DEFAULT_ENV%base}" ]; then
  export EXTRA_SHELL=base
else
  export EXTRA_SHELL=other
fi
export EXTRA_ARGS="$#" EXTRA_SPLIT=a:b
one=$(IFS=:; set -- $EXTRA_SPLIT; echo "$2$1")
export one
