package platform

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// instant is a time as answers show it: whole seconds; nil for the zero time.
func instant(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t.Truncate(time.Second))
}

// number is an id, null when it is 0.
func number(id int64) *wrapperspb.DoubleValue {
	if id == 0 {
		return nil
	}
	return wrapperspb.Double(float64(id))
}

// text is a text, null when it is empty.
func text(s string) *wrapperspb.StringValue {
	if s == "" {
		return nil
	}
	return wrapperspb.String(s)
}
