package container

import (
	"cmp"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/oci"
)

// expiration returns when a name that is issued now expires.
func (s *Service) expiration() *timestamppb.Timestamp {
	return timestamppb.New(s.deps.Now().Add(s.deps.TokenTTL).Truncate(time.Microsecond))
}

// expirationOf returns when the name for a request expires: not later than the names of its
// included images.
func (s *Service) expirationOf(included request.Inclusions) *timestamppb.Timestamp {
	until := s.expiration()
	if end := included.Until; !end.IsZero() && end.Before(until.AsTime()) {
		return timestamppb.New(end)
	}
	return until
}

// issuedName returns the repository of the name of a plan.
func issuedName(p *containerv1.Plan) oci.IssuedName {
	return oci.IssuedName{Token: cmp.Or(p.GetKeptId(), p.GetToken()), Name: p.GetName()}
}

// excess returns by how many characters a name is longer than engines accept.
func (s *Service) excess(p *containerv1.Plan) int {
	return len(s.deps.Host+"/"+issuedName(p).String()) - 255
}

// targetImage returns the name that can be pulled.
func (s *Service) targetImage(p *containerv1.Plan) string {
	if p.GetFrozen() {
		return sourceImage(p)
	}
	return scheme(p) + s.deps.Host + "/" + issuedName(p).String() + oci.Suffix(p.GetReference())
}

// issuedTarget is targetImage, but returns nil if the token is unknown, or the name of an image of an organisation, which is
// for its members only.
func (s *Service) issuedTarget(p *containerv1.Plan) *string {
	if isSecret := oci.IsSecretKeptID(p.GetKeptId()); isSecret || p.GetToken() == "" && p.GetKeptId() == "" && !p.GetFrozen() {
		return nil
	}
	return proto.String(s.targetImage(p))
}

// scheme returns the prefix of the name of an image that only Singularity can pull; "" for
// other images.
func scheme(p *containerv1.Plan) string {
	if p.GetFormat() == request.FormatSif {
		return "oras://"
	}
	return ""
}

// at returns the reference of an image by digest.
func at(image oci.Reference, d digest.Digest) oci.Reference {
	return oci.Reference{Registry: image.Registry, Repository: image.Repository, Digest: d}
}

// sourceImage returns the fully qualified image behind the name.
func sourceImage(p *containerv1.Plan) string {
	return scheme(p) + oci.ReferenceOf(p.GetSource()).String()
}

// containerImage returns the image that a request named, or that was built for it.
func (s *Service) containerImage(p *containerv1.Plan, r *containerv1.ContainerRequest) string {
	if ref, err := oci.ParseReference(r.GetContainerImage()); err == nil {
		return ref.String()
	}
	return s.deps.Keychain.Publish(sourceImage(p))
}

// published returns image names with the public host of the service's own registry.
func (s *Service) published(names []string) []string {
	out := slices.Clone(names)
	for i, name := range out {
		out[i] = s.deps.Keychain.Publish(name)
	}
	return out
}

func timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
