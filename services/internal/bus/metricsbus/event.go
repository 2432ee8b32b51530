package metricsbus

import (
	"time"

	metricsv1 "slipway.dev/proto/gen/slipway/metrics/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
)

// NewEvent returns an event of a caller at a time. The amount is 1. The event has the user's id only
// if the user belongs to this platform, whose address is platform: ids of other platforms may be
// those of other users here.
func NewEvent(m metricsv1.Metric, at time.Time, who *platformv1.Identity, platform string) *metricsv1.Event {
	e := &metricsv1.Event{Metric: m, Day: int32(at.Unix() / (24 * 60 * 60)), Org: caller.Organisation(who)}
	if id := caller.Of(who); !id.IsAnonymous() && id.Endpoint == platform {
		e.UserId, e.WorkspaceId, e.RobotOrgId = id.UserID, id.WorkspaceID, id.RobotOrgID
	}
	return e
}
