package build_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/build"
	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/bus/metricsbus"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// deployment holds what the replicas of the service share.
type deployment struct {
	db    *sqldb.DB
	bus   *nats.Conn
	redis redis.UniversalClient
	up    *testkit.Registry

	mu  sync.Mutex
	now time.Time
	// logins, if set, are the logins of the service and of its callers.
	logins *caller.Keychain
	// platform, if set, identifies callers.
	platform platformv1.AccessServiceClient
	// sifSigner, if set, signs Singularity images.
	sifSigner *attest.Signer
	// layerMemory is how long workers reuse each other's layers; 0 is forever.
	layerMemory time.Duration
	// verify is the share of images of packages that another worker builds again.
	verify float64
	// own are the limits of organisations, workspaces and users.
	own ratelimit.Own
	// reserve reserves slots of workers for users.
	reserve bool
	// replicas holds the metrics of each replica.
	replicas []*prometheus.Registry
}

func newDeployment(t *testing.T, db *sqldb.DB) *deployment {
	t.Helper()
	p := newDeaf(t, db)
	js, err := jetstream.New(p.bus)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), metricsbus.Stream()); err != nil {
		t.Fatal(err)
	}
	return p
}

// newDeaf returns a deployment without the stream of the metrics service. A replica that
// stops waits for this stream.
func newDeaf(t *testing.T, db *sqldb.DB) *deployment {
	t.Helper()
	if err := db.Migrate(t.Context(), "build", build.Migrations()); err != nil {
		t.Fatal(err)
	}
	return &deployment{
		db: db, bus: testkit.NATS(t), redis: testkit.Redis(t), up: testkit.NewRegistry(t, testkit.Open),
		now: time.Now().Truncate(time.Microsecond),
	}
}

func (p *deployment) clock() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

func (p *deployment) sleep(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = p.now.Add(d)
}

// replica is one service with gRPC clients.
type replica struct {
	buildv1.BuildServiceClient
	buildv1.WorkServiceClient
	service *build.Service
}

// replica starts a service. The argument limit is how many builds an anonymous caller may
// start.
func (p *deployment) replica(t *testing.T, limit int) replica {
	t.Helper()
	egress, err := upstream.NewEgress([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	limiter, hourly := ratelimit.New(p.redis, reg, testkit.Log(t)), ratelimit.Limit{{Count: limit, Window: time.Hour}}
	limiter.SetLimits(ratelimit.Limits{ratelimit.Builds: {User: hourly, Anonymous: hourly}})
	limiter.SetOwn(p.own)
	s, err := build.New(build.Deps{
		DB: p.db, Bus: p.bus, Log: testkit.Log(t), Now: p.clock, Metrics: reg,
		Upstream: upstream.New(upstream.Options{Egress: egress, Plain: []string{p.up.Host}, Metrics: reg}),
		Control:  upstream.NewControl(upstream.Options{Egress: egress, Plain: []string{p.up.Host}}),
		Keychain: p.keychain(), Platform: p.platform,
		Limiter: limiter, Signer: p.sifSigner,
		Settings: build.Settings{
			TimeAnonymous: 10 * time.Minute, TimeUser: 20 * time.Minute, Own: "images/own", PlatformURL: "e", LayerMemory: p.layerMemory, ReserveForUsers: p.reserve, VerifyRebuild: p.verify,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Run(t, s.Run)
	conn, _ := testkit.Serve(t, s.Register, "builder", "conda", "container", "gateway", "registry")
	p.replicas = append(p.replicas, reg)
	p.listens(t)
	return replica{buildv1.NewBuildServiceClient(conn), buildv1.NewWorkServiceClient(conn), s}
}

// listens waits until every replica has received the earlier presence messages of workers.
func (p *deployment) listens(t *testing.T) {
	t.Helper()
	const many = 1 << 20 // more slots than all other workers have
	for _, reg := range p.replicas {
		poll(t, "a replica to listen", func(context.Context) error {
			p.announce(t, &buildv1.Presence{Worker: "probe", Slots: many})
			if slots, err := gauge(reg, "slipway_build_worker_slots"); err != nil || slots < many {
				return fmt.Errorf("it knows of %v slots, %w", slots, err)
			}
			return nil
		})
	}
	p.announce(t, &buildv1.Presence{Worker: "probe"})
	for _, reg := range p.replicas {
		poll(t, "the probe to be gone", func(context.Context) error {
			if slots, err := gauge(reg, "slipway_build_worker_slots"); err != nil || slots >= many {
				return fmt.Errorf("it knows of %v slots, %w", slots, err)
			}
			return nil
		})
	}
}

// announce publishes a worker's presence.
func (p *deployment) announce(t *testing.T, what *buildv1.Presence) {
	t.Helper()
	raw, err := proto.Marshal(what)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.bus.Publish(buildbus.Workers, raw); err != nil {
		t.Fatal(err)
	}
}

// gauge returns the sum of a gauge over its labels.
func gauge(reg prometheus.Gatherer, name string) (sum float64, err error) {
	families, err := reg.Gather()
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetGauge().GetValue()
		}
	}
	return sum, err
}

func (p *deployment) keychain() *caller.Keychain {
	if p.logins != nil {
		return p.logins
	}
	return caller.NewKeychain(nil, nil).WithBuildRepository(caller.BuildRepository{Host: p.up.Host, Repository: "builds"})
}

// request returns a request for an image whose content is text.
func (p *deployment) request(text, scope string, who *platformv1.Identity) *buildv1.SubmitBuildRequest {
	sum := sha256.Sum256([]byte(text + scope))
	d := hex.EncodeToString(sum[:])
	repository := "builds"
	if scope != "" {
		repository += "/" + scope
	}
	return &buildv1.SubmitBuildRequest{
		ContentId: d[:16], ContentDigest: d, Scope: scope, Identity: who,
		Recipe: &buildv1.Recipe{ContainerFile: "FROM scratch\n# " + text, Platform: "linux/amd64", Engine: "buildkit"},
		Target: &buildv1.Target{Registry: p.up.Host, Repository: repository, Tag: d[:16]},
	}
}

func (r replica) submit(t *testing.T, req *buildv1.SubmitBuildRequest) *buildv1.SubmitBuildResponse {
	t.Helper()
	resp, err := r.SubmitBuild(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func (r replica) state(t *testing.T, id string) *buildv1.AwaitBuildResponse {
	t.Helper()
	resp, err := r.AwaitBuild(t.Context(), &buildv1.AwaitBuildRequest{BuildId: id, NoWait: true})
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// push pushes an image with a build's annotations, as a worker does at the end.
func (p *deployment) push(t *testing.T, req *buildv1.SubmitBuildRequest, id string) (digest string) {
	t.Helper()
	annotated := mutate.Annotations(testkit.Image(t, "amd64", true), map[string]string{
		"dev.slipway.build-id": id, "dev.slipway.content-digest": req.GetContentDigest(),
	})
	img, ok := annotated.(v1.Image)
	if !ok {
		t.Fatalf("%T is no image", annotated)
	}
	p.up.Push(t, req.GetTarget().GetRepository()+":"+req.GetTarget().GetTag(), img)
	d, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}

// hashOf returns the stored form of a ticket.
func hashOf(ticket string) string {
	sum := sha256.Sum256([]byte(ticket))
	return hex.EncodeToString(sum[:])
}
