package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/regclient/regclient"
	"github.com/regclient/regclient/types/descriptor"
	"github.com/regclient/regclient/types/manifest"
	"github.com/regclient/regclient/types/ref"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	eventsv1 "slipway.dev/proto/gen/slipway/events/v1"

	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/bus/eventbus"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/retry"
	"slipway.dev/services/internal/upstream"
)

// The statements about a built image are pushed to its registry as referrers. There they are found
// without this service, are copied with the image, and outlive the record of the build. A registry
// without the referrers API gets them by the fallback tag. They have the bytes that
// ListAttestations returns, so that a list contains each once. In the embedded store nothing is
// pushed: only issued names refer to its images, and these have the statements anyway.

// Results of pushing statements, which are metric labels.
const (
	attachDone   = "attached"
	attachFailed = "failed"
)

// An attacher pushes statements. Its places are divided among clients: each image is in the registry
// that its client chose.
type attacher struct {
	turns  *fairshare.Pool
	result *prometheus.CounterVec
}

func newAttacher(reg prometheus.Registerer) attacher {
	a := attacher{
		turns: fairshare.New(fairshare.Config{
			Name: "images whose signatures are pushed", Capacity: limits.Attaching, PerClient: limits.AttachingClient, Reserved: limits.Attaching / 4,
			MaxWaiting: limits.AttachingWaiting, MaxWait: eventbus.AckWait / 3,
		}),
		result: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_container_signatures_total",
			Help: "Built and mirrored images whose signed statements were pushed to their registry, by result: attached, or failed (those of built images are only served under issued names).",
		}, []string{"result"}),
	}
	a.result.WithLabelValues(attachDone)
	a.result.WithLabelValues(attachFailed)
	reg.MustRegister(a.turns, a.result)
	return a
}

// attach pushes the signed statements about each built image, until ctx ends. Replicas share the
// events of builds. If nothing is to be pushed, it removes the consumer, so that events do not wait
// for it.
func (s *Service) attach(ctx context.Context) {
	consumer := eventbus.SignatureConsumer()
	consumer.Outage = &retry.Outage{Log: s.deps.Log, Fails: "Events of builds to sign cannot be read right now; retrying", Works: "Events of builds to sign are read again"}
	retry.Forever(ctx, consumer.Outage, func(ctx context.Context) error {
		if err := bus.CreateStreams(ctx, s.events, eventbus.Stream()); err != nil {
			return err
		}
		if s.deps.Signing.Signer == nil || s.deps.Build == nil {
			err := s.events.DeleteConsumer(ctx, consumer.Stream, consumer.Config.Durable)
			if errors.Is(err, jetstream.ErrConsumerNotFound) {
				err = nil
			}
			if err == nil {
				<-ctx.Done()
			}
			return err
		}
		var running sync.WaitGroup
		defer running.Wait()
		places := make(chan struct{}, limits.AttachingWaiting) // a backlog of events waits in the stream
		return bus.Consume(ctx, s.events, consumer, func(ctx context.Context, m jetstream.Msg) {
			places <- struct{}{}
			running.Go(func() {
				defer func() { <-places }()
				s.attachBuild(ctx, m)
			})
		})
	})
}

// attachBuild handles an event of a build. If the statements cannot be pushed in limits.AttachTries
// tries, only the image's issued names have them, and the record of a mirror says so.
func (s *Service) attachBuild(ctx context.Context, m jetstream.Msg) {
	e := &eventsv1.Event{}
	if err := proto.Unmarshal(m.Data(), e); err != nil || !hasStatements(e) {
		_ = m.Ack() // malformed events are reported by consumeBuild
		return
	}
	id, isMirror := e.GetBuild().GetBuildId(), e.GetType() == eventbus.MirrorSucceeded
	err := s.attachTo(ctx, id, digest.Digest(e.GetBuild().GetDigest()))
	tries := deliveries(m)
	isLast := isPermanent(err) || tries >= limits.AttachTries
	if isMirror && (err == nil || ctx.Err() == nil) { // otherwise this process stops, and another one tries again
		if noteErr := s.noteMirror(ctx, id, provenanceState(err, isLast), err); noteErr != nil {
			err, isLast = errors.Join(err, fmt.Errorf("storing the state of the provenance of a mirror: %w", noteErr)), tries >= limits.AttachTries
		}
	}
	switch {
	case err == nil:
		_ = m.Ack()
	case ctx.Err() != nil:
		_ = m.Nak() // this process stops
	case isLast:
		s.attaching.result.WithLabelValues(attachFailed).Inc()
		s.deps.Log.WarnContext(ctx, "The signed statements about an image were not pushed to its registry", "build_id", id, "err", err)
		_ = m.Term()
	default:
		s.deps.Log.InfoContext(ctx, "The signed statements about an image cannot be pushed to its registry right now; retrying", "build_id", id, "try", tries, "err", err)
		_ = m.NakWithDelay(min(time.Duration(tries*tries)*attachPause, time.Hour))
	}
}

// provenanceState returns the state of the provenance of a mirror after an attempt to push it.
func provenanceState(err error, isLast bool) string {
	switch {
	case err == nil:
		return "ATTACHED"
	case isLast:
		return "FAILED"
	}
	return "PENDING"
}

// hasStatements reports whether there are new statements about an image after an event.
func hasStatements(e *eventsv1.Event) bool {
	b := e.GetBuild()
	return b.GetDigest() != "" && (b.GetSucceeded() || e.GetType() == eventbus.BuildVerified)
}

// attachPause is the pause before the second try; the pause grows with the square of the tries.
const attachPause = 5 * time.Second

// deliveries returns how often a message was delivered.
func deliveries(m jetstream.Msg) int {
	info, err := m.Metadata()
	if err != nil {
		return 1
	}
	return int(min(info.NumDelivered, 1<<20))
}

// isPermanent reports whether another try would fail as well.
func isPermanent(err error) bool {
	if errors.Is(err, fault.Unavailable) { // the cause may be an address that egress_allow lacks
		return false
	}
	return errors.Is(err, fault.Denied) || errors.Is(err, fault.Unauthenticated) || errors.Is(err, fault.Invalid)
}

// attachTo pushes the statements about the image of a build, and about the artifact with its environment. The platforms of an index are builds of
// their own. For a mirrored image, that is only the provenance of the copy.
func (s *Service) attachTo(ctx context.Context, id string, d digest.Digest) error {
	ctx, cancel := context.WithTimeout(ctx, eventbus.AckWait*8/10)
	defer cancel()
	at, err := s.deps.Build.LocateBuild(ctx, &buildv1.LocateBuildRequest{BuildId: id})
	if errors.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if at.GetTarget().GetRegistry() == s.deps.EmbeddedStore {
		return nil
	}
	who := caller.Of(at.GetIdentity())
	turn, err := s.attaching.turns.Acquire(ctx, fairshare.Request{Client: who.Client(ctx), Class: fairshare.Background})
	if err != nil {
		return err
	}
	defer turn.Release()
	repo := upstream.Repository{Host: at.GetTarget().GetRegistry(), Name: at.GetTarget().GetRepository()}
	access, err := s.deps.Keychain.BuildAccess(ctx, who, repo.Host, repo.Name)
	if err != nil {
		return err
	}
	client, isSigned := s.deps.Control.New(access, repo.Host), false
	for _, d := range []digest.Digest{d, digest.Digest(at.GetEnvironment())} {
		var all []attest.Artifact
		switch {
		case d == "":
		case at.GetMirror():
			all, err = s.signMirror(ctx, mirrored{id, d, at, repo, access})
		default:
			all, err = s.signBuilt(ctx, id, d, repo, access)
		}
		if err == nil && len(all) > 0 {
			isSigned, err = true, pushAll(ctx, client, oci.Reference{Registry: repo.Host, Repository: repo.Name, Digest: d}, all)
		}
		if err != nil {
			return err
		}
	}
	if isSigned {
		s.attaching.result.WithLabelValues(attachDone).Inc()
	}
	return nil
}

// pushAll pushes the artifacts with the statements about an image, and checks that its registry lists them.
func pushAll(ctx context.Context, client *regclient.RegClient, image oci.Reference, all []attest.Artifact) error {
	for _, a := range all {
		if err := push(ctx, client, upstream.Repository{Host: image.Registry, Name: image.Repository}, a); err != nil {
			return upstream.ControlFault(image.Registry, err)
		}
	}
	return areListed(ctx, client, image, all)
}

// areListed checks that a registry lists artifacts as referrers of an image. Without the referrers API,
// two programs that push at once can each replace the list of the other.
func areListed(ctx context.Context, client *regclient.RegClient, image oci.Reference, all []attest.Artifact) error {
	at, err := ref.New(image.String())
	if err != nil {
		return err
	}
	list, err := client.ReferrerList(upstream.WithPages(ctx), at)
	if err != nil {
		return upstream.ControlFault(image.Registry, err)
	}
	for _, a := range all {
		d := digest.FromBytes(a.Manifest)
		if !slices.ContainsFunc(list.Descriptors, func(l descriptor.Descriptor) bool { return l.Digest == d }) {
			return fault.Unavailable.Newf("the registry %s does not list a pushed statement", image.Registry)
		}
	}
	return nil
}

// signBuilt returns the signed statements about the image of a build; none if the build did not make it,
// or it was deleted.
func (s *Service) signBuilt(ctx context.Context, id string, d digest.Digest, repo upstream.Repository, access upstream.Access) ([]attest.Artifact, error) {
	in, err := s.inputs(ctx, id, d)
	if errors.Is(err, errNotMade) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	doc, err := s.deps.Upstream.Manifest(ctx, repo, d.String(), access)
	if errors.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return s.sign(ctx, ocispec.Descriptor{MediaType: doc.MediaType, Digest: d, Size: int64(len(doc.Bytes))}, origin{s.provenanceOf(in), in, true})
}

// push pushes an artifact with a statement. The client updates the fallback tag if the registry has
// no referrers API.
func push(ctx context.Context, client *regclient.RegClient, repo upstream.Repository, a attest.Artifact) error {
	to, err := ref.New(oci.Reference{Registry: repo.Host, Repository: repo.Name, Digest: digest.FromBytes(a.Manifest)}.String())
	if err != nil {
		return err
	}
	for _, content := range [][]byte{ocispec.DescriptorEmptyJSON.Data, a.Bundle} {
		d := descriptor.Descriptor{Digest: digest.FromBytes(content), Size: int64(len(content))}
		if _, err := client.BlobPut(ctx, to, d, bytes.NewReader(content)); err != nil {
			return err
		}
	}
	m, err := manifest.New(manifest.WithRaw(slices.Clone(a.Manifest)), manifest.WithDesc(descriptor.Descriptor{
		MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromBytes(a.Manifest), Size: int64(len(a.Manifest)),
	}))
	if err != nil {
		return err
	}
	return client.ManifestPut(ctx, to, m)
}
