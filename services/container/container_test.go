package container_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// A harness is the service with its gRPC client and a manual clock.
type harness struct {
	containerv1.ContainerServiceClient
	up    *testkit.Registry
	redis redis.UniversalClient
	image string
	// service is the service that the client calls.
	service *container.Service

	mu  sync.Mutex
	now time.Time
}

func (r *harness) clock() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *harness) sleep(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

func newHarness(t *testing.T, db *sqldb.DB) *harness {
	t.Helper()
	return newHarnessWith(t, db, func(*container.Deps, *testkit.Registry) {})
}

// newHarnessWith lets the test change the dependencies of the service.
func newHarnessWith(t *testing.T, db *sqldb.DB, change func(*container.Deps, *testkit.Registry)) *harness {
	t.Helper()
	if err := db.Migrate(t.Context(), "container", container.Migrations()); err != nil {
		t.Fatal(err)
	}
	// Start at the real time, because Redis has its own clock.
	r := &harness{up: testkit.NewRegistry(t, testkit.Open), redis: testkit.Redis(t), now: time.Now().Truncate(time.Microsecond)}
	r.image = r.up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	egress, err := upstream.NewEgress([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	deps := container.Deps{
		DB: db, Redis: r.redis, Bus: testkit.NATS(t), Metrics: prometheus.NewRegistry(), Log: testkit.Log(t), Now: r.clock,
		Upstream: upstream.New(upstream.Options{Egress: egress, Plain: []string{r.up.Host}, Metrics: prometheus.NewRegistry()}),
		Keychain: caller.NewKeychain(nil, nil), Turns: fairshare.NewTurns(10, time.Minute),
		Settings: container.Settings{
			Host:            "slipway.example.org",
			AnonymousAccess: true, TokenTTL: 36 * time.Hour, Retention: 90 * 24 * time.Hour,
		},
	}
	change(&deps, r.up)
	s, err := container.New(deps)
	if err != nil {
		t.Fatal(err)
	}
	r.service = s
	r.ContainerServiceClient = containerv1.NewContainerServiceClient(
		serve(t, s.Register))
	return r
}

// serve serves a service over an in-memory connection.
func serve(t *testing.T, register func(*rpc.Server)) grpc.ClientConnInterface {
	t.Helper()
	server := rpc.NewServer(rpc.ServerOptions{Log: testkit.Log(t), Metrics: rpc.NewMetrics(prometheus.NewRegistry())})
	register(server)
	memory := rpc.NewMemory()
	go func() { _ = server.Serve(memory) }()
	conn, err := memory.Dial("gateway", "registry")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop(context.Background())
	})
	return conn
}

func (r *harness) submit(t *testing.T, config *containerv1.ContainerConfig) *containerv1.SubmitContainerResponse {
	t.Helper()
	resp, err := r.SubmitContainer(t.Context(), &containerv1.SubmitContainerRequest{Request: &containerv1.ContainerRequest{
		ContainerImage: r.image, ContainerConfig: config, PlatformRefreshToken: "refresh-secret",
	}})
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func dataLayer(t *testing.T, content string) (*containerv1.Layer, []byte) {
	t.Helper()
	gz, tar := testkit.Tar(t, "f", content)
	return &containerv1.Layer{
		Location: "data:" + base64.StdEncoding.EncodeToString(gz), GzipSize: proto.Int64(int64(len(gz))),
		GzipDigest: digest.FromBytes(gz).String(), TarDigest: digest.FromBytes(tar).String(),
	}, gz
}

func (r *harness) resolve(t *testing.T, token string, fresh bool) (*containerv1.Plan, error) {
	t.Helper()
	resp, err := r.ResolveToken(t.Context(), &containerv1.ResolveTokenRequest{Token: token, Fresh: fresh})
	return resp.GetPlan(), err
}

func TestTokenExpiresAtStatedTime(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		r := newHarness(t, db)
		resp := r.submit(t, nil)
		token := resp.GetContainerToken()
		if want := r.clock().Add(36 * time.Hour); !resp.GetExpiration().AsTime().Equal(want) {
			t.Errorf("it expires at %v, want %v", resp.GetExpiration().AsTime(), want)
		}
		if ttl := r.redis.TTL(t.Context(), keyInRedis(token)).Val(); ttl < 35*time.Hour || ttl > 36*time.Hour {
			t.Errorf("in Redis it lives %v", ttl)
		}
		r.sleep(36*time.Hour - time.Second)
		if _, err := r.resolve(t, token, true); err != nil {
			t.Errorf("a second before its end: %v", err)
		}
		r.sleep(time.Second)
		if _, err := r.resolve(t, token, true); !errors.Is(err, fault.NotFound) {
			t.Errorf("at its end: %v", err)
		}
		if _, err := r.GetContainerStatus(t.Context(), &containerv1.GetContainerStatusRequest{RequestId: token}); !errors.Is(err, fault.NotFound) {
			t.Errorf("the status of an expired request: %v", err)
		}
		if _, err := r.DescribeContainer(t.Context(), &containerv1.DescribeContainerRequest{RequestId: token}); err != nil {
			t.Errorf("the description should outlive the token: %v", err)
		}
	})
}

// keyInRedis returns the key of a token in Redis, from which the token cannot be derived.
func keyInRedis(token string) string {
	return fmt.Sprintf("container:token:%x", sha256.Sum256([]byte(token)))
}

func TestTokensAreUnguessable(t *testing.T) {
	t.Parallel()
	r := newHarness(t, testkit.SQLite(t))
	seen := map[string]bool{}
	for range 100 {
		token := r.submit(t, nil).GetContainerToken()
		if seen[token] || len(token) < 20 || strings.Trim(token, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
			t.Fatalf("token %q", token)
		}
		seen[token] = true
	}
}

func TestTokenLostFromRedisIsRestored(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		r := newHarness(t, db)
		token := r.submit(t, &containerv1.ContainerConfig{Env: []string{"A=b"}}).GetContainerToken()
		want, err := r.resolve(t, token, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.redis.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		got, err := r.resolve(t, token, false)
		if err != nil || !proto.Equal(want, got) {
			t.Errorf("after the loss: %v, %v", got, err)
		}
		if n := r.redis.Exists(t.Context(), keyInRedis(token)).Val(); n != 1 {
			t.Error("Redis was not filled again")
		}
	})
}

func TestRevokedTokenNeverComesBack(t *testing.T) {
	t.Parallel()
	r := newHarness(t, testkit.SQLite(t))
	token := r.submit(t, nil).GetContainerToken()
	copied := r.redis.HGet(t.Context(), keyInRedis(token), "plan").Val()
	if _, err := r.RevokeContainer(t.Context(), &containerv1.RevokeContainerRequest{RequestId: token}); err != nil {
		t.Fatal(err)
	}
	// A replica that read SQL before the revocation writes its copy now.
	if err := r.redis.HSet(t.Context(), keyInRedis(token), "plan", copied).Err(); err != nil {
		t.Fatal(err)
	}
	for _, fresh := range []bool{false, true} {
		if _, err := r.resolve(t, token, fresh); !errors.Is(err, fault.NotFound) {
			t.Errorf("fresh=%v: a revoked token resolved: %v", fresh, err)
		}
	}
	if _, err := r.RecordDigest(t.Context(), &containerv1.RecordDigestRequest{Token: token, Digest: digest.FromString("x").String()}); !errors.Is(err, fault.NotFound) {
		t.Errorf("recording for a revoked token: %v", err)
	}
}

func TestDigestsNewestFirst(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		r := newHarness(t, db)
		token := r.submit(t, nil).GetContainerToken()
		first, err := r.resolve(t, token, false)
		if err != nil || len(first.GetDigests()) != 1 {
			t.Fatalf("after the request: %v, %v", first.GetDigests(), err)
		}
		want := first.GetDigests()
		for i := range 3 {
			d := digest.FromString(fmt.Sprint(i)).String()
			r.sleep(time.Millisecond)
			if _, err := r.RecordDigest(t.Context(), &containerv1.RecordDigestRequest{Token: token, Digest: d}); err != nil {
				t.Fatal(err)
			}
			want = append([]string{d}, want...)
		}
		for _, fresh := range []bool{false, true} {
			plan, err := r.resolve(t, token, fresh)
			if diff := cmp.Diff(want, plan.GetDigests()); err != nil || diff != "" {
				t.Errorf("fresh=%v: %v (-want +got):\n%s", fresh, err, diff)
			}
		}
		if _, err := r.RecordDigest(t.Context(), &containerv1.RecordDigestRequest{Token: token, Digest: "sha256:x"}); !errors.Is(err, fault.Invalid) {
			t.Errorf("a malformed digest: %v", err)
		}
	})
}

func TestLayerIsKeptOnceAndStreamed(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		r := newHarness(t, db)
		layer, gz := dataLayer(t, strings.Repeat("content ", 1000))
		for range 3 {
			r.submit(t, &containerv1.ContainerConfig{Layers: []*containerv1.Layer{layer}})
		}
		var rows int
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM container_layers`).Scan(&rows); err != nil || rows != 1 {
			t.Errorf("%d rows, %v", rows, err)
		}
		got, err := r.layer(t, layer.GetGzipDigest())
		if err != nil || !bytes.Equal(got, gz) {
			t.Errorf("streamed %d bytes, %v; want %d", len(got), err, len(gz))
		}
		if _, err := r.layer(t, digest.FromString("other").String()); !errors.Is(err, fault.NotFound) {
			t.Errorf("an unknown layer: %v", err)
		}
		var plans string
		if err := db.QueryRowContext(t.Context(), `SELECT hex(plan) || hex(request) FROM container_requests LIMIT 1`).Scan(&plans); err == nil {
			if strings.Contains(plans, fmt.Sprintf("%X", "refresh-secret")) {
				t.Error("the refresh token is in the database")
			}
		}
	})
}

func (r *harness) layer(t *testing.T, d string) ([]byte, error) {
	t.Helper()
	stream, err := r.GetLayer(t.Context(), &containerv1.GetLayerRequest{GzipDigest: d})
	if err != nil {
		return nil, err
	}
	var out []byte
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, part.GetChunk()...)
	}
}

func TestDescriptionHidesSecrets(t *testing.T) {
	t.Parallel()
	r := newHarness(t, testkit.SQLite(t))
	layer, _ := dataLayer(t, "secret content")
	token := r.submit(t, &containerv1.ContainerConfig{Env: []string{"KEY=secret"}, Layers: []*containerv1.Layer{layer}}).GetContainerToken()
	d, err := r.DescribeContainer(t.Context(), &containerv1.DescribeContainerRequest{RequestId: token})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"KEY"}, d.GetContainerConfig().GetEnv()); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
	if l := d.GetContainerConfig().GetLayers()[0]; l.GetLocation() != "data:" || l.GetGzipDigest() != layer.GetGzipDigest() {
		t.Errorf("layer %v", l)
	}
}

func TestNameTooLongToServe(t *testing.T) {
	t.Parallel()
	r := newHarness(t, testkit.SQLite(t))
	image := r.up.Push(t, strings.Repeat("long/", 42)+"name:v1", testkit.Image(t, "amd64", true))
	_, err := r.SubmitContainer(t.Context(), &containerv1.SubmitContainerRequest{Request: &containerv1.ContainerRequest{ContainerImage: image}})
	if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "too long") {
		t.Errorf("got %v", err)
	}
}
