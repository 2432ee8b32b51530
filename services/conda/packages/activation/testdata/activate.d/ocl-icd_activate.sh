if [ "${OCL_ICD_FILENAMES_RESET:-0}" -eq 0 ]; then
  old="$OCL_ICD_FILENAMES"
  new=""
  for f in $CONDA_PREFIX/etc/OpenCL/vendors/*.icd; do
     new=$new:${f}
  done
  export OCL_ICD_FILENAMES="${new#:}${old:+:$old}"
fi
unset old new f
