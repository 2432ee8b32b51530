// Package follow shows running builds and their logs, across broken connections.
package follow

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
)

// ending is the result of a build.
type ending struct {
	Succeeded  bool   `json:"succeeded"`
	ReasonCode string `json:"reasonCode"`
	Message    string `json:"message"`
}

// fault returns nil if the build succeeded.
func (e *ending) fault(id string) error {
	if e.Succeeded {
		return nil
	}
	text := "build " + id + " failed"
	if e.ReasonCode != "" {
		text += " (" + e.ReasonCode + ")"
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return errors.New(output.PrintableLines(text))
}

// Build follows a build until it ends and returns its failure.
func Build(ctx context.Context, c *session.Client, id string, show *Console) error {
	return show.during(func() error {
		if err := show.foresee(ctx, c, id); err != nil {
			return err
		}
		end, err := newFollower(c, id, show.show).run(ctx)
		if err != nil {
			return fmt.Errorf("reading the log: %w", err)
		}
		return end.fault(id)
	})
}

// follower reads a build's events across broken connections.
type follower struct {
	c    *session.Client
	id   string
	show func(event) error

	silence  time.Duration // after this time a silent connection is considered broken
	patience time.Duration // how long to retry an unreachable server

	last  string        // id of the last event
	retry time.Duration // the server's reconnection time
	heard time.Time     // when the server last responded; zero for never
}

func newFollower(c *session.Client, id string, show func(event) error) *follower {
	return &follower{c: c, id: id, show: show, silence: 45 * time.Second, patience: 2 * time.Minute}
}

// run passes each event on once, until the build has ended.
func (f *follower) run(ctx context.Context) (*ending, error) {
	for {
		end, err := f.connect(ctx)
		if err == nil {
			return end, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("interrupted: %w", ctx.Err())
		}
		if _, lost := errors.AsType[session.Lost](err); !lost || f.heard.IsZero() || time.Since(f.heard) > f.patience {
			return nil, err
		}
		select {
		case <-time.After(cmp.Or(f.retry, time.Second)):
		case <-ctx.Done():
		}
	}
}

// connect reads events until the connection ends.
func (f *follower) connect(ctx context.Context) (*ending, error) {
	header := http.Header{"Accept": {"text/event-stream"}}
	if f.last != "" {
		header.Set("Last-Event-ID", f.last)
	}
	body, err := f.c.Open(ctx, session.Call{Method: http.MethodGet, Path: "/v1alpha1/builds/" + f.id + "/events"}, header, f.silence)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	for s := newStream(body); ; {
		e, err := s.next()
		f.heard, f.last, f.retry = time.Now(), cmp.Or(s.last, f.last), cmp.Or(s.retry, f.retry)
		if errors.Is(err, io.EOF) {
			err = errors.New("the connection ended before the build")
		}
		if err != nil {
			return nil, session.Lost{Err: f.c.Unanswered(err)}
		}
		if e.name == "done" {
			var end ending
			if err := json.Unmarshal([]byte(e.data), &end); err != nil {
				return nil, f.c.Strange(err)
			}
			return &end, nil
		}
		if err := f.show(e); err != nil {
			return nil, fmt.Errorf("printing the log: %w", err)
		}
	}
}
