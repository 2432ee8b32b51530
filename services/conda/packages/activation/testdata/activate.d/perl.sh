if [ "${PERL5LIB:+set}" = set ]; then
  export _CONDA_PERL5LIB_BACKUP="$PERL5LIB"
  unset PERL5LIB
fi
_perl_version='5.32'
export PERL_LOCAL_LIB_ROOT= PERL_VERSION_DIR="$CONDA_PREFIX/lib/perl5/${_perl_version%.*}/core_perl"
unset _perl_version
