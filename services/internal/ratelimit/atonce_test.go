package ratelimit_test

import (
	"errors"
	"testing"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/ratelimit"
)

func TestAtOnce(t *testing.T) {
	t.Parallel()
	a := ratelimit.AtOnce{What: "streams", Each: 2, All: 3}
	enter := func(client string, want error) func() {
		leave, err := a.Enter(client)
		if !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("%s is answered %v, want %v", client, err, want)
		}
		if e, ok := fault.As(err); ok && e.RetryAfter == 0 {
			t.Errorf("%v does not say when to try again", err)
		}
		return leave
	}
	leave := enter("a", nil)
	enter("a", nil)
	enter("a", fault.Exhausted)
	enter("b", nil)
	enter("c", fault.Unavailable)
	leave()
	enter("c", nil)
	enter("a", fault.Unavailable)
}
