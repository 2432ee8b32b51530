package buildkit

import (
	"context"
	"strings"

	gateway "github.com/moby/buildkit/frontend/gateway/pb"
	"github.com/moby/buildkit/solver/pb"
	spb "github.com/moby/buildkit/sourcepolicy/pb"
	"github.com/moby/buildkit/sourcepolicy/policysession"
	"google.golang.org/protobuf/proto"

	"slipway.dev/services/internal/dockerfile"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// imageScheme is the prefix of an image's identifier.
const imageScheme = "docker-image://"

// decide implements policysession.PolicyCallback: it decides whether the daemon may use a
// source. It first requests the image's configuration from the daemon. The daemon expands
// its variables and ONBUILD instructions, so their growth is computed here before that. The
// daemon then gets the image by the digest that was checked, since a registry could return
// another image for the same tag a moment later.
func (s *sources) decide(ctx context.Context, req *policysession.CheckPolicyRequest) (*policysession.DecisionResponse, *gateway.ResolveSourceMetaRequest, error) {
	source, image := req.GetSource().GetSource(), req.GetSource().GetImage()
	id := source.GetIdentifier()
	why := s.refusal(ctx, id)
	name, isImage := strings.CutPrefix(id, imageScheme)
	read := digestIn(name)
	switch {
	case why != "" || !isImage || s.isChecked(read, req.GetPlatform()):
	case image == nil:
		return nil, &gateway.ResolveSourceMetaRequest{
			Source: source, Platform: req.GetPlatform(), Image: &gateway.ResolveSourceImageRequest{},
		}, nil
	default:
		read = image.GetDigest()
		if why = s.checkSigned(ctx, name, read); why == "" {
			why = s.check(image, req.GetPlatform())
		}
	}
	if why == "" && isImage {
		s.noteImage(name, read)
		if digestIn(name) != read {
			return &policysession.DecisionResponse{
				Action: spb.PolicyAction_CONVERT,
				Update: &pb.SourceOp{Identifier: imageScheme + name + "@" + read, Attrs: source.GetAttrs()},
			}, nil, nil
		}
	}
	return s.decision(id, why), nil, nil
}

// decision allows a source if why is "". Otherwise it denies the source, and records why
// for the build's failure.
func (s *sources) decision(id, why string) *policysession.DecisionResponse {
	if why == "" {
		return &policysession.DecisionResponse{Action: spb.PolicyAction_ALLOW}
	}
	s.deny(id, why)
	return &policysession.DecisionResponse{Action: spb.PolicyAction_DENY, DenyMessages: []*policysession.DenyMessage{{Message: why}}}
}

// digestIn returns the digest in the name of an image; "" for a name that is malformed or
// has no digest.
func digestIn(name string) string {
	ref, err := oci.ParseReference(name)
	if err != nil {
		return ""
	}
	return ref.Digest.String()
}

// checkedImage returns the key of an image for one platform. The digest may be that of an
// index.
func checkedImage(digest string, p *pb.Platform) string {
	platform, _ := proto.MarshalOptions{Deterministic: true}.Marshal(p)
	return digest + " " + string(platform)
}

func (s *sources) isChecked(digest string, p *pb.Platform) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return digest != "" && s.checked[checkedImage(digest, p)]
}

// check returns why the Dockerfile must not be built from an image; "" if it may be.
func (s *sources) check(image *gateway.ResolveSourceImageResponse, p *pb.Platform) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := checkedImage(image.GetDigest(), p)
	if s.checked[key] {
		return ""
	}
	if s.file == nil {
		f, err := dockerfile.Read(s.dockerfile)
		if err != nil {
			return reason(err)
		}
		s.file = f
	}
	more, err := s.file.WithBase(image.GetConfig())
	if err != nil {
		return reason(err)
	}
	if s.grown += more; s.grown > limits.DockerfileExpanded {
		return "the variables and ONBUILD instructions of the base images make the Dockerfile too long; use fewer images, or images that set fewer variables"
	}
	s.checked[key] = true
	return ""
}

func reason(err error) string {
	if f, ok := fault.As(err); ok {
		return f.Public
	}
	return "it cannot be checked"
}
