package build

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/fault"
)

// A line's ordinal is its place in the build's log: first in the subject on the
// bus, then in SQL, which takes the subject over as it is. So it is the same for
// every reader, at any time, on any replica.

// foldLogs copies a build's log from the bus to SQL. What is there already stays.
func (s *Service) foldLogs(ctx context.Context, id string) error {
	next := int64(1)
	return s.readBus(ctx, id, func(chunk *buildv1.LogChunk) error {
		first := next
		next += int64(len(chunk.GetEntries()))
		return s.store.PutLog(ctx, id, first, chunk)
	})
}

// readBus gives each message of a build's log, from the first to the one that is
// the last now.
func (s *Service) readBus(ctx context.Context, id string, each func(*buildv1.LogChunk) error) error {
	stream, err := s.bus.Stream(ctx, buildbus.LogStream)
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
	return s.followBus(ctx, id, func(m jetstream.Msg) (bool, error) {
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

// followBus gives each message of a build's log, until each says that it was the
// last, or ctx ends.
func (s *Service) followBus(ctx context.Context, id string, each func(jetstream.Msg) (last bool, err error)) error {
	c, err := s.bus.OrderedConsumer(ctx, buildbus.LogStream, buildbus.LogConsumer(id))
	if err != nil {
		return err
	}
	messages, err := c.Messages(jetstream.PullExpiry(10 * time.Second))
	if err != nil {
		return err
	}
	defer func() {
		messages.Stop()
		if info := c.CachedInfo(); info != nil { // the bus would keep it for a minute
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			_ = s.bus.DeleteConsumer(ctx, buildbus.LogStream, info.Name)
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

// StreamLogs streams a log: what is stored, or what is being written.
func (s *Service) StreamLogs(req *buildv1.StreamLogsRequest, stream grpc.ServerStreamingServer[buildv1.StreamLogsResponse]) error {
	ctx := stream.Context()
	out := &lineWriter{after: req.GetAfter(), send: stream.Send}
	ended, leave := s.ended.wait(req.GetBuildId())
	defer leave()
	var log *tail // from when it is followed
	for {
		rec, err := s.read(ctx, req.GetBuildId())
		if err != nil {
			return err
		}
		if !rec.IsPending() {
			if err := s.storedLog(ctx, rec.ID, out); err != nil {
				return err
			}
			return stream.Send(&buildv1.StreamLogsResponse{Ended: outcome(rec)})
		}
		if !req.GetFollow() {
			return s.writtenLog(ctx, rec.ID, out)
		}
		if log == nil {
			tail, done := s.tails.enter(rec.ID)
			defer done()
			log = tail
		}
		if err := s.liveLog(ctx, rec.ID, log, ended, out); err != nil {
			return err
		}
	}
}

// lineWriter sends lines that the reader does not have yet.
type lineWriter struct {
	after int64
	next  int64 // ordinal of the line before the next chunk
	send  func(*buildv1.StreamLogsResponse) error
}

// chunk sends the lines of a chunk that begins after line number first-1.
func (w *lineWriter) chunk(first int64, c *buildv1.LogChunk) error {
	out := &buildv1.StreamLogsResponse{}
	for i, e := range c.GetEntries() {
		if n := first + int64(i); n > w.after {
			out.Lines = append(out.Lines, &buildv1.LogLine{Ordinal: n, Text: e.GetText(), Phase: e.GetPhase()})
		}
	}
	if len(out.GetLines()) == 0 {
		return nil
	}
	return w.lines(out.GetLines())
}

// lines sends lines that follow on the last one.
func (w *lineWriter) lines(list []*buildv1.LogLine) error {
	w.after = list[len(list)-1].GetOrdinal()
	return w.send(&buildv1.StreamLogsResponse{Lines: list})
}

// restart begins to count from the first line again.
func (w *lineWriter) restart() { w.next = 1 }

// add sends the next chunk.
func (w *lineWriter) add(c *buildv1.LogChunk) error {
	first := w.next
	w.next += int64(len(c.GetEntries()))
	return w.chunk(first, c)
}

// storedLog begins with the part that holds the first line that the reader lacks.
func (s *Service) storedLog(ctx context.Context, id string, out *lineWriter) error {
	from, err := s.store.LogBefore(ctx, id, out.after+1)
	if err != nil {
		return s.store.Fault("reading a log", err)
	}
	for {
		first, chunk, err := s.store.LogAfter(ctx, id, from)
		if errors.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return s.store.Fault("reading a log", err)
		}
		if err := out.chunk(first, chunk); err != nil {
			return err
		}
		from = first
	}
}

func (s *Service) writtenLog(ctx context.Context, id string, out *lineWriter) error {
	out.restart()
	if err := s.readBus(ctx, id, out.add); err != nil {
		return fmt.Errorf("reading the log of %s: %w", id, err)
	}
	return nil
}

// liveLog follows a log until the build ends, or for a while: whoever calls
// looks then whether it has, since a message may have been lost.
func (s *Service) liveLog(ctx context.Context, id string, log *tail, ended <-chan struct{}, out *lineWriter) error {
	look := time.NewTimer(lookAgain)
	defer look.Stop()
	for {
		lines, gone, more := log.after(out.after)
		switch {
		case gone: // it is too far behind for what is kept
			before := out.after
			if err := s.writtenLog(ctx, id, out); err != nil {
				return err
			}
			if out.after > before {
				continue
			}
		case len(lines) > 0:
			if err := out.lines(lines); err != nil {
				return err
			}
			continue
		}
		select {
		case <-more:
		case <-ended:
			return nil
		case <-look.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
