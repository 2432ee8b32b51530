package build

import (
	"google.golang.org/grpc"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
)

// StreamLogs streams a log, stored or still being written.
func (s *Service) StreamLogs(req *buildv1.StreamLogsRequest, stream grpc.ServerStreamingServer[buildv1.StreamLogsResponse]) error {
	ctx := stream.Context()
	log := s.logs.Reader(req.GetBuildId(), req.GetAfter(), func(resp *buildv1.StreamLogsResponse) error {
		for _, l := range resp.GetLines() {
			l.Text = s.deps.Keychain.Publish(l.GetText())
		}
		return stream.Send(resp)
	})
	defer log.Close()
	ended, leave := s.ended.wait(req.GetBuildId())
	defer leave()
	for {
		rec, err := s.read(ctx, req.GetBuildId())
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
