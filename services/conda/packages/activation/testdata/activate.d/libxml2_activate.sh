#! /bin/sh
if test "${XML_CATALOG_FILES:-}" != ""; then
    xml_catalog_files_libxml2="${XML_CATALOG_FILES}"
    XML_CATALOG_FILES="${XML_CATALOG_FILES} "
else
    xml_catalog_files_libxml2=""
    XML_CATALOG_FILES=""
fi

# Blanks in the path are encoded: each becomes %20.
conda_catalog_files=""
ifs_libxml2="${IFS}"
IFS=" "
rem="${CONDA_PREFIX}"
for pre in ${rem}; do
    while test "${rem#"${pre}"}" = "${rem}"; do
        conda_catalog_files="${conda_catalog_files}%20"
        rem="${rem#?}"
    done
    conda_catalog_files="${conda_catalog_files}${pre}"
    rem="${rem#"${pre}"}"
done
while test "${rem}" != ""; do
    conda_catalog_files="${conda_catalog_files}%20"
    rem="${rem#?}"
done
IFS="${ifs_libxml2}"

conda_catalog_files="file://${conda_catalog_files}/etc/xml/catalog file:///etc/xml/catalog"
export XML_CATALOG_FILES="${XML_CATALOG_FILES}${conda_catalog_files}"
unset conda_catalog_files ifs_libxml2 rem
