package embedded_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"slipway.dev/services/internal/embedded"
	"slipway.dev/services/internal/testkit"
)

// TestFullDisk fills the disk of the embedded NATS: a stream rejects messages until the disk
// has space. Then it stores messages without a restart of the process, and still has its old
// messages.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := testkit.SmallDisk(t, 32<<20)
	server, err := embedded.StartNATS(disk.Dir, testkit.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Shutdown(); server.WaitForShutdown() })
	nc, err := nats.Connect("", nats.InProcessServer(server))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Storage: jetstream.FileStorage, MaxBytes: 1 << 30}); err != nil {
		t.Fatal(err)
	}
	stored := uint64(0)
	publish := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := js.Publish(ctx, "s.a", make([]byte, 1<<16))
		if err == nil {
			stored++
		}
		return err
	}
	if err := publish(); err != nil {
		t.Fatal(err)
	}
	disk.Fill(0)
	testkit.Until(t, "a message is rejected", func() error {
		if publish() == nil {
			return errors.New("it was stored")
		}
		return nil
	})
	disk.Free()
	testkit.Until(t, "a message is stored again", publish)
	s, err := js.Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.CachedInfo().State.Msgs; got < stored {
		t.Errorf("the stream has %d messages, %d were stored", got, stored)
	}
}
