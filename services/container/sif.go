package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/grpc"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// typeSif is the media type of a Singularity image in a registry.
const typeSif = "application/vnd.sylabs.sif.layer.v1.sif"

// StreamSif streams the Singularity image of a request from its repository, with the
// credentials of the user who made the request. The caller must therefore have the token of
// the request, or be that user.
func (s *Service) StreamSif(req *containerv1.StreamSifRequest, stream grpc.ServerStreamingServer[containerv1.StreamSifResponse]) error {
	ctx := stream.Context()
	rec, err := s.authorized(ctx, req.GetRequestId())
	if err == nil {
		err = rec.Works(s.deps.Now())
	}
	if err != nil {
		return err
	}
	made, err := s.sifManifest(ctx, rec.Plan)
	if err != nil {
		return err
	}
	if req.GetBegins() {
		if err := s.chargePull(ctx, rec.Plan.GetIdentity()); err != nil {
			return err
		}
	}
	src := rec.Plan.GetSource()
	repo := upstream.Repository{Host: src.GetRegistry(), Name: src.GetRepository()}
	access, err := s.deps.Keychain.BuildAccess(ctx, caller.Of(rec.Plan.GetIdentity()), repo.Host, repo.Name)
	if err != nil {
		return err
	}
	file, err := s.sifFile(ctx, repo, made, access)
	if err != nil {
		return err
	}
	first := &containerv1.StreamSifResponse{Digest: file.Digest.String(), Size: file.Size, FileName: s.sifName(rec.Plan)}
	from, length := req.GetOffset(), min(req.GetLength(), file.Size-req.GetOffset())
	if from < 0 || length <= 0 {
		return stream.Send(first)
	}
	body, err := s.deps.Upstream.ReadBlob(ctx, repo, file.Digest, access, from, length)
	if err != nil {
		return err
	}
	defer body.Close()
	return sendSif(stream, first, io.LimitReader(body, length), length)
}

// sifName returns a file name for saving the image: its content and tag.
func (s *Service) sifName(p *containerv1.Plan) string {
	src := p.GetSource()
	name := path.Base(src.GetRepository()) + "-"
	if s.deps.owns(src.GetRegistry(), src.GetRepository()) {
		in := strings.TrimPrefix(src.GetRepository()+"/", s.deps.Builds.Repository+"/")
		in = strings.TrimPrefix(in, request.ScopeOf(caller.Of(p.GetIdentity()))+"/")
		name = strings.ReplaceAll(in, "/", "-") // the service's repository does not describe the content
	}
	return name + src.GetReference() + ".sif"
}

// sifManifest returns the digest of the manifest that the request's build has pushed.
func (s *Service) sifManifest(ctx context.Context, plan *containerv1.Plan) (string, error) {
	if plan.GetFormat() != request.FormatSif {
		return "", fault.NotFound.Newf("This request made no Singularity image: its format is not sif")
	}
	b, err := s.stateOf(ctx, plan.GetBuildId())
	switch {
	case err != nil:
		return "", err
	case b.GetState() == buildv1.BuildState_BUILD_STATE_FAILED:
		return "", fault.NotFound.Newf("The build %s failed (%s): %s", plan.GetBuildId(), b.GetReason(), b.GetMessage())
	case b.GetState() != buildv1.BuildState_BUILD_STATE_SUCCEEDED:
		return "", fault.Unavailable.Newf("The build %s has not finished yet; try again", plan.GetBuildId()).After(5 * time.Second)
	}
	return b.GetDigest(), nil
}

// sifFile returns the descriptor of the Singularity file in a manifest.
func (s *Service) sifFile(ctx context.Context, repo upstream.Repository, manifest string, a upstream.Access) (ocispec.Descriptor, error) {
	doc, err := s.deps.Upstream.Manifest(ctx, repo, manifest, a)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	m, err := oci.ParseManifest(doc)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	for _, l := range m.Layers {
		if l.MediaType == typeSif {
			return l, nil
		}
	}
	return ocispec.Descriptor{}, fault.NotFound.Newf("%s/%s@%s no longer holds a Singularity image", repo.Host, repo.Name, manifest)
}

// sendSif sends first with the first bytes, then the rest.
func sendSif(stream grpc.ServerStreamingServer[containerv1.StreamSifResponse], first *containerv1.StreamSifResponse, body io.Reader, length int64) error {
	piece := make([]byte, min(length, 256<<10))
	for m := first; ; m = new(containerv1.StreamSifResponse) {
		n, err := io.ReadFull(body, piece)
		if n > 0 {
			m.Chunk = piece[:n]
			if err := stream.Send(m); err != nil {
				return err
			}
			length -= int64(n)
		}
		switch {
		case length == 0:
			return nil
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return fault.Unavailable.New("The registry sent an incomplete file", fmt.Errorf("%d bytes are missing", length))
		case err != nil:
			return err
		}
	}
}
