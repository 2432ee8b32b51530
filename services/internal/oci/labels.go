package oci

// DefinitionLabel is the label of images that were built from a Singularity definition. Such an
// image has its own scripts for Singularity, which those of its configuration do not replace.
const DefinitionLabel = "org.slipway.definition"
