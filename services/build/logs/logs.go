// Package logs stores the logs of builds: on the bus while a build runs, and in SQL when it
// has ended. The end of a followed log is also in memory.
//
// A line's ordinal is its position in the build's log. It is part of the subject on the bus
// and is copied to SQL, so it is the same for every reader, at any time and on any replica.
package logs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/store"
	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/bus/buildbus"
)

// Logs holds all logs. Create it with New; it is safe for concurrent use.
type Logs struct {
	bus   jetstream.JetStream
	store store.Store
	tails *tails
}

// New returns the logs on a bus and in a store.
func New(js jetstream.JetStream, rows store.Store) *Logs {
	l := &Logs{bus: js, store: rows}
	l.tails = newTails(l.followBus)
	return l
}

// Begin writes the first line of a build's log before a worker can. It may be repeated.
func (l *Logs) Begin(ctx context.Context, id, text string) error {
	return l.AppendLine(ctx, id, "preface", text)
}

// AppendLine appends a line of the build service to a build's log, while no worker has the build.
// key identifies the line within the build, so that the call can be retried.
func (l *Logs) AppendLine(ctx context.Context, id, key, text string) error {
	raw, err := proto.Marshal(&buildv1.LogChunk{Entries: []*buildv1.LogEntry{{Text: text, TimeMs: time.Now().UnixMilli()}}})
	if err != nil {
		return err
	}
	if err := bus.Publish(ctx, l.bus, buildbus.Log(id), raw, jetstream.WithMsgID(id+"."+key)); err != nil {
		return fmt.Errorf("writing to the log of %s: %w", id, err)
	}
	return nil
}

// Fold copies a build's log from the bus to SQL. It does not overwrite existing parts.
func (l *Logs) Fold(ctx context.Context, id string) error {
	next := int64(1)
	return l.readBus(ctx, id, func(chunk *buildv1.LogChunk) error {
		first := next
		next += int64(len(chunk.GetEntries()))
		return l.store.PutLog(ctx, id, first, chunk)
	})
}

// Remove deletes a build's log from the bus.
func (l *Logs) Remove(ctx context.Context, id string) error {
	stream, err := l.bus.Stream(ctx, buildbus.LogStream)
	if err != nil {
		return err
	}
	return stream.Purge(ctx, jetstream.WithPurgeSubject(buildbus.Log(id)))
}

// readBus calls each with the messages of a build's log, from the first to the current
// last.
func (l *Logs) readBus(ctx context.Context, id string, each func(*buildv1.LogChunk) error) error {
	stream, err := l.bus.Stream(ctx, buildbus.LogStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	last, err := stream.GetLastMsgForSubject(ctx, buildbus.Log(id))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return l.followBus(ctx, id, func(m jetstream.Msg) (bool, error) {
		chunk, at, err := readChunk(m)
		if err == nil {
			err = each(chunk)
		}
		return at >= last.Sequence, err
	})
}

func readChunk(m jetstream.Msg) (*buildv1.LogChunk, uint64, error) {
	meta, err := m.Metadata()
	if err != nil {
		return nil, 0, err
	}
	chunk := &buildv1.LogChunk{}
	if err := proto.Unmarshal(m.Data(), chunk); err != nil {
		return nil, 0, fmt.Errorf("reading a part of a log: %w", err)
	}
	return chunk, meta.Sequence.Stream, nil
}

// followBus calls each with the messages of a build's log until it reports that one was the
// last, or ctx ends.
func (l *Logs) followBus(ctx context.Context, id string, each func(jetstream.Msg) (last bool, err error)) error {
	c, err := l.bus.OrderedConsumer(ctx, buildbus.LogStream, buildbus.LogConsumer(id))
	if err != nil {
		return err
	}
	messages, err := c.Messages(jetstream.PullExpiry(10 * time.Second))
	if err != nil {
		return err
	}
	defer func() {
		messages.Stop()
		if info := c.CachedInfo(); info != nil { // otherwise the bus keeps the consumer for a minute
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			_ = l.bus.DeleteConsumer(ctx, buildbus.LogStream, info.Name)
		}
	}()
	defer context.AfterFunc(ctx, messages.Stop)()
	for {
		m, err := messages.Next()
		if errors.Is(err, jetstream.ErrMsgIteratorClosed) && ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, jetstream.ErrNoHeartbeat) {
			continue
		}
		if err != nil {
			return err
		}
		if last, err := each(m); err != nil || last {
			return err
		}
	}
}
