package build

import (
	"context"

	"google.golang.org/grpc"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/store"
)

// published returns lines of a log with changed text. The lines of a running build are shared by
// all readers of its log, and are not modified.
func published(lines []*buildv1.LogLine, change func(string) string) []*buildv1.LogLine {
	out := make([]*buildv1.LogLine, len(lines))
	for i, l := range lines {
		out[i] = l
		if text := change(l.GetText()); text != l.GetText() {
			out[i] = &buildv1.LogLine{Ordinal: l.GetOrdinal(), Text: text, Phase: l.GetPhase()}
		}
	}
	return out
}

// StreamLogs streams a log, stored or still being written.
func (s *Service) StreamLogs(req *buildv1.StreamLogsRequest, stream grpc.ServerStreamingServer[buildv1.StreamLogsResponse]) error {
	ctx := stream.Context()
	log := s.logs.Reader(req.GetBuildId(), req.GetAfter(), func(resp *buildv1.StreamLogsResponse) error {
		return stream.Send(&buildv1.StreamLogsResponse{Lines: published(resp.GetLines(), s.deps.Keychain.Publish)})
	})
	defer log.Close()
	ended, leave := s.ended.wait(req.GetBuildId())
	defer leave()
	for {
		rec, err := s.readApart(ctx, req.GetBuildId())
		if err != nil {
			return err
		}
		if !rec.IsPending() {
			if err := log.Stored(ctx); err != nil {
				return err
			}
			return stream.Send(&buildv1.StreamLogsResponse{Ended: outcome(rec)})
		}
		if !req.GetFollow() {
			return log.Written(ctx)
		}
		if err := log.Follow(ctx, ended, pollInterval); err != nil {
			return err
		}
	}
}

// readApart is like read, but reads in another goroutine: a query needs a deep stack, which a
// goroutine that follows a log would keep.
func (s *Service) readApart(ctx context.Context, id string) (store.Record, error) {
	var rec store.Record
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		rec, err = s.read(ctx, id)
	}()
	<-done
	return rec, err
}
