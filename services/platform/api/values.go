package api

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Timestamp returns t for a response, truncated to whole seconds. It returns nil for the
// zero time.
func Timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t.Truncate(time.Second))
}

// IDValue returns an id for a response. It returns nil (JSON null) for 0.
func IDValue(id int64) *wrapperspb.DoubleValue {
	if id == 0 {
		return nil
	}
	return wrapperspb.Double(float64(id))
}

// StringValue returns s for a response. It returns nil (JSON null) for "".
func StringValue(s string) *wrapperspb.StringValue {
	if s == "" {
		return nil
	}
	return wrapperspb.String(s)
}

// LastUsedResolution is the resolution of stored times of last use. A use within this time
// after the stored one is not stored, so that most uses need no write.
const LastUsedResolution = 10 * time.Minute
