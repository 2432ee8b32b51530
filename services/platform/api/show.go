package api

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Instant is a time as responses show it: whole seconds; nil for the zero time.
func Instant(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t.Truncate(time.Second))
}

// Number is an id, null when it is 0.
func Number(id int64) *wrapperspb.DoubleValue {
	if id == 0 {
		return nil
	}
	return wrapperspb.Double(float64(id))
}

// Text is a text, null when it is empty.
func Text(s string) *wrapperspb.StringValue {
	if s == "" {
		return nil
	}
	return wrapperspb.String(s)
}

// UsedEvery is how coarsely it is kept when something was last used.
const UsedEvery = 10 * time.Minute
