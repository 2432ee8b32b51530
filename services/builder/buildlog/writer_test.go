package buildlog_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/builder/buildlog"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/internal/testkit/bubble"
)

// TestDelay prints lines for an hour, and checks how long they take until they are sent, and in how many
// messages.
func TestDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var most []time.Duration // in each minute
		messages, lines := 0, 0
		w := buildlog.New(jobs.Job{ID: "b"}, func(_ context.Context, _, _ string, m proto.Message) error {
			chunk, ok := m.(*buildv1.LogChunk)
			if !ok {
				t.Errorf("the message is a %T", m)
			}
			messages++
			for _, e := range chunk.GetEntries() {
				minute := int(time.Since(begin) / time.Minute)
				for len(most) <= minute {
					most = append(most, 0)
				}
				most[minute] = max(most[minute], time.Since(time.UnixMilli(e.GetTimeMs())))
				lines++
			}
			return nil
		}, slog.New(slog.DiscardHandler))
		const printed = 60 * 60 * 20
		for i := range printed {
			w.Print("", fmt.Sprint(i))
			bubble.Elapse(50 * time.Millisecond)
		}
		w.End(t.Context())
		if lines != printed {
			t.Errorf("%d of %d lines were sent", lines, printed)
		}
		if most[0] > 35*time.Millisecond || most[len(most)-1] > 210*time.Millisecond {
			t.Errorf("lines waited for up to %s in the first minute, %s in the last", most[0], most[len(most)-1])
		}
		if messages > 25_000 {
			t.Errorf("%d messages were sent", messages)
		}
		t.Logf("%d messages; lines waited for up to %s in the first minute, %s in the last", messages, most[0], most[len(most)-1])
	})
}

// TestEnd checks that the last lines are sent without a delay.
func TestEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var sent []string
		w := buildlog.New(jobs.Job{ID: "b"}, func(_ context.Context, _, _ string, m proto.Message) error {
			if chunk, ok := m.(*buildv1.LogChunk); ok {
				for _, e := range chunk.GetEntries() {
					sent = append(sent, e.GetText())
				}
			}
			return nil
		}, slog.New(slog.DiscardHandler))
		w.Print("", "one")
		w.Print("", "two")
		begin := time.Now()
		w.End(t.Context())
		if took := time.Since(begin); took != 0 || fmt.Sprint(sent) != "[one two]" {
			t.Errorf("after %s %q were sent", took, sent)
		}
	})
}
