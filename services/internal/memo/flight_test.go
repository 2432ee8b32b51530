package memo_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"slipway.dev/services/internal/memo"
)

type outcome struct {
	value int
	err   error
}

// callers starts n callers, each with its own context, and waits until they have joined.
func callers(t testing.TB, f *memo.Flight[string, int], n int, work func(context.Context) (int, error)) ([]context.CancelFunc, []chan outcome) {
	t.Helper()
	ends, results := make([]context.CancelFunc, n), make([]chan outcome, n)
	for i := range n {
		ctx, cancel := context.WithCancel(t.Context())
		ends[i], results[i] = cancel, make(chan outcome, 1)
		go func() {
			v, err := f.Do(ctx, "key", work)
			results[i] <- outcome{v, err}
		}()
	}
	for f.Waiting("key") != n {
		runtime.Gosched()
	}
	return ends, results
}

// blocked returns a work function that ends when finish receives a value or its context is
// cancelled.
func blocked(calls *atomic.Int64, finish <-chan int, ended chan<- struct{}) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		calls.Add(1)
		select {
		case v := <-finish:
			return v, nil
		case <-ctx.Done():
			close(ended)
			return 0, ctx.Err()
		}
	}
}

func TestFlightJoins(t *testing.T) {
	t.Parallel()
	var f memo.Flight[string, int]
	var calls atomic.Int64
	finish := make(chan int, 1)
	_, results := callers(t, &f, 8, blocked(&calls, finish, nil))
	finish <- 7
	for _, r := range results {
		if got := <-r; got.value != 7 || got.err != nil {
			t.Errorf("got %v", got)
		}
	}
	if calls.Load() != 1 || f.Waiting("key") != 0 {
		t.Errorf("work ran %d times; %d callers still wait", calls.Load(), f.Waiting("key"))
	}
}

func TestFlightSurvivesCancelledCallers(t *testing.T) {
	t.Parallel()
	var f memo.Flight[string, int]
	var calls atomic.Int64
	finish := make(chan int, 1)
	// The first caller, which started the call, is one of those that are cancelled.
	ends, results := callers(t, &f, 3, blocked(&calls, finish, make(chan struct{})))
	for i := range 2 {
		ends[i]()
		if got := <-results[i]; !errors.Is(got.err, context.Canceled) {
			t.Errorf("a cancelled caller got %v", got)
		}
	}
	finish <- 7
	if got := <-results[2]; got.value != 7 || got.err != nil {
		t.Errorf("the remaining caller got %v", got)
	}
}

func TestFlightIsCancelledWithLastCaller(t *testing.T) {
	t.Parallel()
	var f memo.Flight[string, int]
	var calls atomic.Int64
	ended := make(chan struct{})
	ends, results := callers(t, &f, 3, blocked(&calls, nil, ended))
	for i := range ends {
		ends[i]()
		<-results[i]
	}
	<-ended // the test hangs if the work is not cancelled
	got, err := f.Do(t.Context(), "key", func(context.Context) (int, error) { return 8, nil })
	if got != 8 || err != nil {
		t.Errorf("a later call got %d, %v, the result of the cancelled one", got, err)
	}
}

func TestFlightSharesErrors(t *testing.T) {
	t.Parallel()
	var f memo.Flight[string, int]
	broken, fail := errors.New("broken"), make(chan struct{})
	_, results := callers(t, &f, 2, func(context.Context) (int, error) { <-fail; return 0, broken })
	close(fail)
	for _, r := range results {
		if got := <-r; !errors.Is(got.err, broken) {
			t.Errorf("got %v", got)
		}
	}
	if _, err := f.Do(t.Context(), "key", func(context.Context) (int, error) { return 1, nil }); err != nil {
		t.Errorf("an error was cached: %v", err)
	}
}

func TestFlightSeparatesKeys(t *testing.T) {
	t.Parallel()
	var f memo.Flight[string, int]
	finish := make(chan int, 1)
	var calls atomic.Int64
	_, results := callers(t, &f, 1, blocked(&calls, finish, nil))
	if got, err := f.Do(t.Context(), "other", func(context.Context) (int, error) { return 2, nil }); got != 2 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
	finish <- 1
	if got := <-results[0]; got.value != 1 {
		t.Errorf("got %v", got)
	}
}

type ctxKey struct{}

func TestFlightCarriesValues(t *testing.T) {
	t.Parallel()
	var f memo.Flight[string, int]
	got, err := f.Do(context.WithValue(t.Context(), ctxKey{}, 5), "key", func(ctx context.Context) (int, error) {
		n, _ := ctx.Value(ctxKey{}).(int)
		return n, nil
	})
	if got != 5 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
}

// TestFlightHere checks work that the first caller does itself: it is cancelled when no caller waits, and not before.
func TestFlightHere(t *testing.T) {
	t.Parallel()
	var f memo.Flight[string, int]
	var calls atomic.Int64
	finish, ended := make(chan int), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	begin := func(ctx context.Context, waiting int) chan outcome {
		result := make(chan outcome, 1)
		go func() {
			v, err := f.DoHere(ctx, "key", blocked(&calls, finish, ended))
			result <- outcome{v, err}
		}()
		for f.Waiting("key") != waiting {
			runtime.Gosched()
		}
		return result
	}
	first := begin(ctx, 1)
	second := begin(t.Context(), 2)
	cancel()
	for f.Waiting("key") != 1 {
		runtime.Gosched()
	}
	finish <- 7
	for _, result := range []chan outcome{first, second} {
		if got := <-result; got.value != 7 || got.err != nil {
			t.Errorf("got %v", got)
		}
	}
	if calls.Load() != 1 {
		t.Errorf("work ran %d times", calls.Load())
	}
	ctx, cancel = context.WithCancel(t.Context())
	only := begin(ctx, 1)
	cancel()
	<-ended
	if got := <-only; !errors.Is(got.err, context.Canceled) {
		t.Errorf("without callers, got %v", got)
	}
	if _, err := f.DoHere(t.Context(), "key", func(context.Context) (int, error) { panic("broken") }); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("after a panic, got %v", err)
	}
	if v, err := f.DoHere(t.Context(), "key", func(context.Context) (int, error) { return 3, nil }); v != 3 || err != nil {
		t.Errorf("after a panic, got %d, %v", v, err)
	}
}
