package container

import (
	"cmp"
	"encoding/hex"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// provenanceOf returns the provenance of an image that a build has made. It only depends on stored
// data, so that every replica returns the same.
func (s *Service) provenanceOf(in *buildv1.DescribeInputsResponse) *attest.Provenance {
	b := in.GetBuild()
	out := &attest.Provenance{
		BuildDefinition: attest.BuildDefinition{
			BuildType: attest.BuildTypeImage,
			ExternalParameters: attest.Parameters{
				Engine: in.GetEngine(), Format: cmp.Or(in.GetFormat(), "oci"), ContentDigest: prefixed(b.GetContentDigest()), Platforms: platformsOf(b.GetPlatform()),
			},
		},
		RunDetails: attest.RunDetails{Builder: attest.Builder{ID: s.deps.address()}},
	}
	if b.GetBuildId() != "" {
		out.RunDetails.Metadata = &attest.Metadata{
			InvocationID: b.GetBuildId(), StartedOn: attest.Timestamp(in.GetStartedAt().AsTime()), FinishedOn: attest.Timestamp(in.GetFinishedAt().AsTime()),
		}
	}
	p := &out.BuildDefinition.ExternalParameters
	p.ContainerFile, p.ContainerFileDigest = recipeText(b.GetContainerFile())
	for _, d := range in.GetLockDigests() {
		p.LockDigests = append(p.LockDigests, prefixed(d))
	}
	for _, i := range in.GetImages() {
		image := oci.ReferenceOf(i)
		if image.Digest == "" {
			continue
		}
		r := attest.Resource{Name: "image", Digest: digests(image.Digest)}
		if image.Registry != "" {
			r.URI = imageURI(image)
		}
		out.BuildDefinition.ResolvedDependencies = append(out.BuildDefinition.ResolvedDependencies, r)
	}
	for _, d := range in.GetLayers() {
		out.BuildDefinition.ResolvedDependencies = append(out.BuildDefinition.ResolvedDependencies, attest.Resource{Name: "layer", Digest: digests(digest.Digest(d))})
	}
	if in.GetIncomplete() {
		p.Omitted = append(p.Omitted, "images")
	}
	if d := in.GetContextDigest(); d != "" {
		out.BuildDefinition.ResolvedDependencies = append(out.BuildDefinition.ResolvedDependencies, attest.Resource{Name: "buildContext", Digest: digests(digest.Digest(d))})
	}
	packages, complete := packageResources(in.GetLocks())
	if !complete {
		p.Omitted = append(p.Omitted, "packages")
	}
	out.BuildDefinition.ResolvedDependencies = append(out.BuildDefinition.ResolvedDependencies, packages...)
	return out
}

// rebuiltOf returns the statement that another worker made the same bytes; nil if that is not known.
func rebuiltOf(in *buildv1.DescribeInputsResponse) *attest.Rebuilt {
	r := in.GetRebuilt()
	if r == nil {
		return nil
	}
	return &attest.Rebuilt{
		BuildID: r.GetBuildId(),
		Builds: []attest.WorkerBuild{
			{Worker: r.GetFirstWorker(), FinishedOn: attest.Timestamp(r.GetFirstFinishedAt().AsTime())},
			{Worker: r.GetSecondWorker(), FinishedOn: attest.Timestamp(r.GetSecondFinishedAt().AsTime())},
		},
	}
}

// addedConfig returns the configuration that a request adds, without values: variables and arguments
// may contain secrets.
func addedConfig(c *containerv1.ContainerConfig) *attest.Config {
	out := &attest.Config{}
	for name, isSet := range map[string]bool{"entrypoint": len(c.GetEntrypoint()) > 0, "cmd": len(c.GetCmd()) > 0, "workingDir": c.GetWorkingDir() != ""} {
		if isSet {
			out.Replaced = append(out.Replaced, name)
		}
	}
	slices.Sort(out.Replaced)
	for _, kv := range c.GetEnv() {
		name, _, _ := strings.Cut(kv, "=")
		out.Env = append(out.Env, name)
	}
	return out
}

// packageResources returns the packages of locks, each once, in their order. It returns none if
// there are too many.
func packageResources(locks []*condav1.PlatformLock) (out []attest.Resource, complete bool) {
	seen := map[string]bool{}
	for _, l := range locks {
		for _, p := range l.GetPackages() {
			if seen[p.GetUrl()] {
				continue
			}
			seen[p.GetUrl()] = true
			if len(out) == limits.AttestationPackages {
				return nil, false // the digest of the lock identifies them
			}
			r := attest.Resource{Name: p.GetFileName(), URI: withoutLogin(p.GetUrl()), Digest: map[string]string{}}
			for algorithm, sum := range map[string]string{"sha256": p.GetSha256(), "md5": p.GetMd5()} {
				if _, err := hex.DecodeString(sum); err == nil && sum != "" {
					r.Digest[algorithm] = sum
				}
			}
			out = append(out, r)
		}
	}
	return out, true
}

// layerResource returns an added layer. Its location may contain a secret in its query.
func layerResource(l *containerv1.Layer) attest.Resource {
	r := attest.Resource{Name: "layer", Digest: digests(digest.Digest(l.GetGzipDigest()))}
	if at := l.GetLocation(); at != "" && !strings.HasPrefix(at, "data:") {
		r.URI = withoutLogin(at)
	}
	if from := l.GetIncludedFrom(); from != nil && from.GetBuildId() == "" && from.GetIdentity() == nil {
		r.Annotations = map[string]string{"includedFrom": cmp.Or(from.GetPublicRegistry(), from.GetRegistry()) + "/" + from.GetRepository() + oci.Suffix(from.GetReference())}
	}
	return r
}

// withoutLogin returns an address without the parts that may contain secrets: the user, the query,
// the fragment, and the token in paths of anaconda.org.
func withoutLogin(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Opaque != "" {
		return ""
	}
	u.User, u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = nil, "", false, "", ""
	if rest, ok := strings.CutPrefix(u.Path, "/t/"); ok {
		_, after, _ := strings.Cut(rest, "/")
		u.Path, u.RawPath = "/"+after, ""
	}
	return u.String()
}

// imageURI returns the package URL of an image by digest.
func imageURI(image oci.Reference) string {
	return "pkg:oci/" + url.PathEscape(path.Base(image.Repository)) + "@" + url.QueryEscape(image.Digest.String()) +
		"?repository_url=" + url.QueryEscape(image.Registry+"/"+image.Repository)
}

// recipeText returns a recipe and its digest, or only the digest of a long one.
func recipeText(text string) (short, sum string) {
	if text == "" {
		return "", ""
	}
	if len(text) <= limits.AttestationRecipe {
		short = text
	}
	return short, digest.FromString(text).String()
}

func platformsOf(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// prefixed returns a digest with its algorithm.
func prefixed(sum string) string {
	if sum == "" {
		return ""
	}
	return digest.NewDigestFromEncoded(digest.SHA256, sum).String()
}

// digests returns a digest in the form of in-toto; nil for an invalid one.
func digests(d digest.Digest) map[string]string {
	if d.Validate() != nil {
		return nil
	}
	return map[string]string{d.Algorithm().String(): d.Encoded()}
}
