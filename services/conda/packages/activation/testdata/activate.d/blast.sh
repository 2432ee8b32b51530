cat <<EOF
BLAST is in ${CONDA_PREFIX}.
EOF
printf '%s\n' "To find databases set BLASTDB"
: "${BLASTDB:=$CONDA_PREFIX/share/blast db}"
export BLASTDB
export BLAST_LIST="$(for d in one two; do printf '%s;' $d; done)"
IFS=: read_is=1
unset IFS
