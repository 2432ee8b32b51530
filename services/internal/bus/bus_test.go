package bus_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/embedded"
	"slipway.dev/services/internal/testkit"
)

// eachNATS runs a test on the embedded server and on a nats-server.
func eachNATS(t *testing.T, test func(t *testing.T, nc *nats.Conn)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, testkit.NATS(t))
	})
	if testkit.Real() {
		t.Run("real", func(t *testing.T) {
			t.Parallel()
			test(t, connect(t, testkit.StartNATS(t).URL, testkit.Log(t)))
		})
	}
}

func connect(t testing.TB, url string, log *slog.Logger) *nats.Conn {
	t.Helper()
	nc, err := bus.Connect(url, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func subscribe(t testing.TB, nc *nats.Conn, subject string) chan *nats.Msg {
	t.Helper()
	got := make(chan *nats.Msg, 100)
	if _, err := nc.ChanSubscribe(subject, got); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestMessages(t *testing.T) {
	t.Parallel()
	eachNATS(t, func(t *testing.T, nc *nats.Conn) {
		got := subscribe(t, nc, "build.done.*")
		for i := range 3 {
			if err := nc.Publish(fmt.Sprintf("build.done.%d", i), []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 3 {
			if m := <-got; m.Subject != fmt.Sprintf("build.done.%d", i) {
				t.Errorf("message %d has the subject %s", i, m.Subject)
			}
		}
		if _, err := nc.Request("unused", nil, time.Minute); err == nil {
			t.Error("a request without a subscriber returned a response")
		}
	})
}

func TestJetStream(t *testing.T) {
	t.Parallel()
	eachNATS(t, func(t *testing.T, nc *nats.Conn) {
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		s, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "jobs", Subjects: []string{"jobs.>"}})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // messages with the same ID are stored once
			if _, err := js.Publish(t.Context(), "jobs.a", []byte("1"), jetstream.WithMsgID("id")); err != nil {
				t.Fatal(err)
			}
		}
		if info, err := s.Info(t.Context()); err != nil || info.State.Msgs != 1 {
			t.Errorf("the stream has %d messages, %v; want 1", info.State.Msgs, err)
		}
	})
}

// TestConsume consumes two messages and rejects the first one once.
func TestConsume(t *testing.T) {
	t.Parallel()
	eachNATS(t, func(t *testing.T, nc *nats.Conn) {
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		c := bus.Consumer{
			Stream: "jobs", Prefetch: 1,
			Config: jetstream.ConsumerConfig{Durable: "consumer", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute, MaxAckPending: 1},
		}
		if err := bus.Consume(t.Context(), js, c, nil); !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Errorf("without a stream: %v", err)
		}
		for range 2 {
			if err := bus.CreateStreams(t.Context(), js, jetstream.StreamConfig{Name: "jobs", Subjects: []string{"jobs"}}); err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range []string{"a", "b"} {
			if _, err := js.Publish(t.Context(), "jobs", []byte(m)); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		ctx, cancel := context.WithCancel(t.Context())
		err = bus.Consume(ctx, js, c, func(_ context.Context, m jetstream.Msg) {
			if got = append(got, string(m.Data())); len(got) == 1 {
				_ = m.Nak()
				return
			}
			if err := m.DoubleAck(t.Context()); err != nil {
				t.Error(err)
			}
			if len(got) == 3 {
				cancel()
			}
		})
		cancel()
		if want := []string{"a", "a", "b"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
	})
}

// TestConsumeReturnsMessages verifies that prefetched messages are redelivered immediately
// when a consumer stops, without waiting for AckWait.
func TestConsumeReturnsMessages(t *testing.T) {
	t.Parallel()
	eachNATS(t, func(t *testing.T, nc *nats.Conn) {
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		if err := bus.CreateStreams(t.Context(), js, jetstream.StreamConfig{Name: "jobs", Subjects: []string{"jobs"}}); err != nil {
			t.Fatal(err)
		}
		for _, m := range []string{"a", "b", "c"} {
			if _, err := js.Publish(t.Context(), "jobs", []byte(m)); err != nil {
				t.Fatal(err)
			}
		}
		c := bus.Consumer{
			Stream: "jobs", Prefetch: 3,
			Config: jetstream.ConsumerConfig{Durable: "consumer", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Hour},
		}
		var got []string
		for len(got) < 3 {
			ctx, cancel := context.WithCancel(t.Context())
			err := bus.Consume(ctx, js, c, func(_ context.Context, m jetstream.Msg) {
				got = append(got, string(m.Data()))
				_ = m.DoubleAck(t.Context())
				cancel()
			})
			if cancel(); err != nil {
				t.Fatal(err)
			}
		}
		if slices.Sort(got); !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("got %v", got)
		}
	})
}

// TestSubscription verifies that messages published before Run are handled, and that Run
// unsubscribes at its end.
func TestSubscription(t *testing.T) {
	t.Parallel()
	eachNATS(t, func(t *testing.T, nc *nats.Conn) {
		before := nc.NumSubscriptions()
		got := make(chan string, 10)
		ctx, cancel := context.WithCancel(t.Context())
		var runs []func()
		for _, queue := range []string{"", "one", "one"} {
			s, err := bus.Subscribe(nc, "events.*", queue)
			if err != nil {
				t.Fatal(err)
			}
			runs = append(runs, func() { s.Run(ctx, func(_ context.Context, m *nats.Msg) { got <- queue + m.Subject }) })
		}
		if err := nc.Publish("events.early", nil); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for _, run := range runs {
			all.Go(run)
		}
		received := []string{<-got, <-got}
		if slices.Sort(received); !slices.Equal(received, []string{"events.early", "oneevents.early"}) {
			t.Errorf("got %v", received)
		}
		cancel()
		all.Wait()
		if n := nc.NumSubscriptions() - before; n != 0 {
			t.Errorf("%d subscriptions are left", n)
		}
	})
}

func TestEmbeddedStoresStreams(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, want := range []uint64{1, 2} {
		s, err := embedded.StartNATS(dir, testkit.Log(t))
		if err != nil {
			t.Fatal(err)
		}
		nc, err := bus.Local(s, testkit.Log(t))
		if err != nil {
			t.Fatal(err)
		}
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "jobs", Subjects: []string{"jobs"}}); err != nil {
			t.Fatal(err)
		}
		ack, err := js.Publish(t.Context(), "jobs", []byte("x"))
		if err != nil || ack.Sequence != want {
			t.Errorf("got %+v, %v; want sequence %d", ack, err, want)
		}
		nc.Close()
		s.Shutdown()
		s.WaitForShutdown()
	}
}

func TestConnectRefuses(t *testing.T) {
	t.Parallel()
	if nc, err := bus.Connect("nats://%zz", testkit.Log(t)); err == nil {
		nc.Close()
		t.Error("Connect accepted an invalid URL")
	}
}

// A logLines is a log whose lines a test waits for.
type logLines chan string

func (n logLines) Write(p []byte) (int, error) {
	n <- string(p)
	return len(p), nil
}

// await discards lines until one contains text.
func (n logLines) await(text string) {
	for line := range n {
		if strings.Contains(line, text) {
			return
		}
	}
}

func TestConnectDoesNotWait(t *testing.T) {
	t.Parallel()
	nc := connect(t, "nats://127.0.0.1:"+testkit.FreePort(t), testkit.Log(t))
	if nc.IsConnected() || nc.IsClosed() {
		t.Errorf("without a server, the status is %s", nc.Status())
	}
	if err := nc.Publish("a", []byte("x")); err != nil {
		t.Errorf("publishing without a server: %v", err)
	}
}

func TestReconnect(t *testing.T) {
	t.Parallel()
	if !testkit.Real() {
		t.Skip("needs a nats-server: set SLIPWAY_TEST_REAL")
	}
	server, log := testkit.StartNATS(t), make(logLines, 1000)
	nc := connect(t, server.URL, slog.New(slog.NewTextHandler(log, nil)))
	got := subscribe(t, nc, "a")
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	log.await("NATS connection lost")
	if err := nc.Publish("a", []byte("sent meanwhile")); err != nil {
		t.Errorf("publishing without a server: %v", err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	if m := <-got; string(m.Data) != "sent meanwhile" {
		t.Errorf("got %q", m.Data)
	}
	log.await("NATS connection restored")
}
