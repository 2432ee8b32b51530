package conda

import (
	"context"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/conda/channel"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/rpc"
)

// ListChannels returns the age of the package lists of this replica, for administrators. It
// does not disclose the names of channels that callers requested, nor of private channels.
func (s *Service) ListChannels(ctx context.Context, _ *condav1.ListChannelsRequest) (*condav1.ListChannelsResponse, error) {
	gate := caller.Gate{Platform: s.deps.Platform}
	if err := gate.Administrator(ctx, "Only the platform's administrator may list channels"); err != nil {
		return nil, err
	}
	out := &condav1.ListChannelsResponse{}
	var others channel.Status
	for _, one := range s.deps.Channels.Statuses() {
		switch {
		case one.Channel != "":
			out.Channels = append(out.Channels, state(one))
		case !one.Checked.IsZero():
			if others.Checked.IsZero() || one.Checked.Before(others.Checked) {
				others.Checked = one.Checked
			}
			others.Size += one.Size
		}
	}
	if !others.Checked.IsZero() {
		out.Others = state(others)
	}
	return out, nil
}

func state(s channel.Status) *condav1.ChannelState {
	out := &condav1.ChannelState{
		Channel: rpc.Optional(s.Channel), Subdir: rpc.Optional(s.Subdir),
		Size: proto.Float64(float64(s.Size)), Problem: rpc.Optional(s.Failure),
	}
	if !s.Checked.IsZero() {
		out.CheckedTime = timestamppb.New(s.Checked)
	}
	return out
}
