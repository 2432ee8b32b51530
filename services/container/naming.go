package container

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/oci"
)

// expiration is when a name that is given now stops working.
func (s *Service) expiration() *timestamppb.Timestamp {
	return timestamppb.New(s.deps.Now().Add(s.deps.TokenTTL).Truncate(time.Microsecond))
}

// expirationOf is when a name stops working that a request is given now: no later than
// the names that it includes.
func (s *Service) expirationOf(r request.Request) *timestamppb.Timestamp {
	until := s.expiration()
	if end := r.Included.Until; !end.IsZero() && end.Before(until.AsTime()) {
		return timestamppb.New(end)
	}
	return until
}

// excess is by how many characters a name is longer than engines take.
func (s *Service) excess(p *containerv1.Plan) int {
	return len(s.deps.Host+"/wt/"+p.GetToken()+"/"+p.GetName()) - 255
}

// targetImage is the name that can be pulled.
func (s *Service) targetImage(p *containerv1.Plan) string {
	if p.GetFrozen() {
		return sourceImage(p)
	}
	return scheme(p) + fmt.Sprintf("%s/wt/%s/%s%s", s.deps.Host, p.GetToken(), p.GetName(), oci.Suffix(p.GetReference()))
}

// knownName is the same; nil where the token in it is not known.
func (s *Service) knownName(p *containerv1.Plan) *string {
	if p.GetToken() == "" && !p.GetFrozen() {
		return nil
	}
	return proto.String(s.targetImage(p))
}

// scheme begins the name of what only Singularity can pull; "" for an image.
func scheme(p *containerv1.Plan) string {
	if p.GetFormat() == request.FormatSif {
		return "oras://"
	}
	return ""
}

// sourceImage is the fully qualified image behind the name.
func sourceImage(p *containerv1.Plan) string {
	src := p.GetSource()
	return scheme(p) + src.GetRegistry() + "/" + src.GetRepository() + oci.Suffix(src.GetReference())
}

// containerImage is what the name is made of: the image that was asked for, or that
// was built.
func containerImage(p *containerv1.Plan, r *containerv1.ContainerRequest) string {
	if ref, err := oci.ParseReference(r.GetContainerImage()); err == nil {
		return ref.String()
	}
	return sourceImage(p)
}

func instant(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
