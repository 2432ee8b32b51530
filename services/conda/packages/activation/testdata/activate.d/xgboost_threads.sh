n=0
while [ $n != xxx ]; do
  n=${n}x
  n=${n#0}
done
export XG_THREADS=${#n} XG_FIRST=${n:0:1} XG_REPLACED=${CONDA_PREFIX//\//_} XG_UPPER=${n^^}
until false; do break; done
