package oci

// DefinitionLabel is the label of images that were built from a Singularity definition. Such an
// image contains its own scripts for Singularity, which scripts from its configuration must not
// replace.
const DefinitionLabel = "org.slipway.definition"
