package kv_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"slipway.dev/services/internal/kv"
	"slipway.dev/services/internal/testkit"
)

func TestCommands(t *testing.T) {
	t.Parallel()
	testkit.EachRedis(t, func(t *testing.T, client redis.UniversalClient) {
		ctx := t.Context()
		if err := client.Set(ctx, "a", "1", time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
		if got, err := client.Get(ctx, "a").Result(); err != nil || got != "1" {
			t.Errorf("got %q, %v", got, err)
		}
		if _, err := client.Get(ctx, "b").Result(); !errors.Is(err, redis.Nil) {
			t.Errorf("getting a missing key returned %v", err)
		}
		if ttl, err := client.PTTL(ctx, "a").Result(); err != nil || ttl <= 0 || ttl > time.Hour {
			t.Errorf("the TTL is %s, %v", ttl, err)
		}
	})
}

// Keys must expire on both servers. The embedded server's clock is advanced by this process.
func TestKeysExpire(t *testing.T) {
	t.Parallel()
	testkit.EachRedis(t, func(t *testing.T, client redis.UniversalClient) {
		for _, key := range []string{"short", "long"} {
			life := map[string]time.Duration{"short": 50 * time.Millisecond, "long": time.Hour}[key]
			if err := client.Set(t.Context(), key, "1", life).Err(); err != nil {
				t.Fatal(err)
			}
		}
		testkit.Until(t, "the key to expire", func() error {
			if client.Exists(t.Context(), "short").Val() != 0 {
				return errors.New("the key still exists")
			}
			return nil
		})
		if client.Exists(t.Context(), "long").Val() != 1 {
			t.Error("a key expired too early")
		}
	})
}

func TestPublishAndSubscribe(t *testing.T) {
	t.Parallel()
	testkit.EachRedis(t, func(t *testing.T, client redis.UniversalClient) {
		sub := client.Subscribe(t.Context(), "news")
		t.Cleanup(func() { _ = sub.Close() })
		if _, err := sub.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := client.Publish(t.Context(), "news", "hello").Err(); err != nil {
			t.Fatal(err)
		}
		if m, err := sub.ReceiveMessage(t.Context()); err != nil || m.Payload != "hello" {
			t.Errorf("got %v, %v", m, err)
		}
	})
}

// TestUnresponsiveServer uses a server that accepts connections and never responds.
func TestUnresponsiveServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	client, err := kv.Connect("redis://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := client.Get(ctx, "a").Err(); err == nil || ctx.Err() != nil {
		t.Errorf("got %v, with the context's error %v; want a timeout before the context is done", err, ctx.Err())
	}
}

func TestConnectDoesNotWait(t *testing.T) {
	t.Parallel()
	client, err := kv.Connect("redis://127.0.0.1:" + testkit.FreePort(t))
	if err != nil {
		t.Fatalf("connecting to a server that is not running: %v", err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if _, err := kv.Connect("nonsense"); err == nil {
		t.Error("Connect accepted an invalid URL")
	}
}

func TestReconnect(t *testing.T) {
	t.Parallel()
	if !testkit.Real() {
		t.Skip("needs a redis-server: set SLIPWAY_TEST_REAL")
	}
	server := testkit.StartRedis(t)
	client, err := kv.Connect(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if err := client.Set(t.Context(), "a", "1", 0).Err(); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	if err := client.Get(t.Context(), "a").Err(); err == nil || errors.Is(err, redis.Nil) {
		t.Errorf("after the server was killed: %v, want an error other than redis.Nil", err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the connection", func() error {
		if err := client.Get(t.Context(), "a").Err(); !errors.Is(err, redis.Nil) {
			return fmt.Errorf("the command returned %w", err)
		}
		return nil
	})
}
