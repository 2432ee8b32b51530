package container

import (
	"path"

	"github.com/opencontainers/go-digest"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/sbom"
)

// billScope is the note of SBOMs that are signed.
const billScope = "Lists the Conda packages and wheels of the lock that the image was built from, for all platforms of the image. " +
	"Packages of the base image and of added layers are not listed."

// condaBill returns the SBOM, in SPDX, of the packages that a build installed in an image. It returns
// nil if the build has no locks, or its locks are private. It does no I/O: the SBOM that the inspect
// service returns also has the packages in other layers, for which they must be read.
func condaBill(image digest.Digest, in *buildv1.DescribeInputsResponse) ([]byte, error) {
	var components []sbom.Component
	seen := map[string]bool{}
	for _, l := range in.GetLocks() {
		for _, p := range l.GetPackages() {
			if seen[p.GetUrl()] { // a noarch package is in the lock of each platform
				continue
			}
			seen[p.GetUrl()] = true
			components = append(components, sbom.Conda([]spec.Record{{
				Name: p.GetName(), Version: p.GetVersion(), Build: p.GetBuild(), Channel: p.GetChannel(), Subdir: p.GetSubdir(), FileName: p.GetFileName(),
				URL: withoutLogin(p.GetUrl()), SHA256: p.GetSha256(), MD5: p.GetMd5(), License: p.GetLicense(),
			}}, "/"+path.Dir(path.Dir(spec.LockFile)))...)
		}
	}
	if len(components) == 0 {
		return nil, nil
	}
	list := sbom.Image{Name: "image", Digest: image.String(), Platform: in.GetBuild().GetPlatform(), Note: billScope, Components: components}
	if in.GetFinishedAt() != nil {
		list.Created = in.GetFinishedAt().AsTime()
	}
	return list.Document(sbom.SPDX)
}
