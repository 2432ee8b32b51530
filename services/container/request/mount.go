package request

import "slipway.dev/services/internal/fault"

// checkMount follows gateway/contract/container-service.md#mounted-environments. What requires
// build steps is rejected when the packages are read.
func (p Parsed) checkMount() error {
	config := p.Raw.GetContainerConfig()
	switch {
	case p.Raw.GetContainerFile() != "" || isEmptyPackages(p.Raw.GetPackages()) && p.Raw.GetCondaFile() == "":
		return fault.Invalid.Newf("mount is for Conda packages: request packages or condaFile, or leave it out")
	case isErofs(p.Raw):
		return fault.Invalid.Newf("mount and buildCompression.mode %s exclude each other: a mounted environment is made from layers that are tars; leave one of them out", layersOnly(p.Raw))
	case p.IsSif():
		return fault.Invalid.Newf("mount and format sif exclude each other: a Singularity image is one file")
	case len(p.Includes) > 0 || len(config.GetLayers()) > 0:
		return fault.Invalid.Newf("mount and containerIncludes or containerConfig.layers exclude each other: only the files of the packages can be mounted")
	case !isEmptyConfig(config) && !p.Raw.GetFreeze():
		return fault.Invalid.Newf("mount and containerConfig exclude each other, unless the image is frozen: the index of files belongs to the image without additions")
	}
	return nil
}
