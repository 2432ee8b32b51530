package app

import (
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/kv"
	"slipway.dev/services/internal/testkit"
)

// TestReplicasDifferInPlatformURL checks that each replica learns of the addresses of others,
// and forgets those of replicas that stopped.
func TestReplicasDifferInPlatformURL(t *testing.T) {
	t.Parallel()
	address := "redis://" + miniredis.RunT(t).Addr()
	replica := func(url string) *env {
		client, err := kv.Connect(address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		return &env{cfg: config.Config{PlatformURL: url, RedisURL: address}, redis: client, log: testkit.Log(t)}
	}
	a, b, c := replica("https://a.example.org"), replica("https://a.example.org/"), replica("https://b.example.org")
	now := time.Now()
	for name, step := range map[*env][]string{a: nil, b: nil} {
		if got := name.otherPlatformURLs(t.Context(), now); !slices.Equal(got, step) {
			t.Errorf("%s: others are %v", name.cfg.PlatformURL, got)
		}
	}
	if got := c.otherPlatformURLs(t.Context(), now); !slices.Equal(got, []string{"https://a.example.org"}) {
		t.Errorf("the third finds %v", got)
	}
	if got := a.otherPlatformURLs(t.Context(), now.Add(time.Minute)); !slices.Equal(got, []string{"https://b.example.org"}) {
		t.Errorf("the first finds %v", got)
	}
	if got := a.otherPlatformURLs(t.Context(), now.Add(forgetAfter)); len(got) != 0 {
		t.Errorf("after the third stopped, the first finds %v", got)
	}
	p, err := (&env{cfg: config.Config{PlatformURL: "https://a.example.org"}, redis: a.redis}).watchReplicas(t.Context())
	if err != nil || len(p.run) != 0 {
		t.Errorf("a process with its own Redis watches for others: %v, %v", p, err)
	}
}
