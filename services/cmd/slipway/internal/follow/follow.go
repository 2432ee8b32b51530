// Package follow shows builds while they go on, across broken connections, and their logs.
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

// ending is how a build ended.
type ending struct {
	Succeeded bool   `json:"succeeded"`
	Reason    string `json:"reason"`
	Message   string `json:"message"`
}

// fault is nil for a build that made its image.
func (e *ending) fault(id string) error {
	if e.Succeeded {
		return nil
	}
	text := "build " + id + " failed"
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return errors.New(output.PrintableLines(text))
}

// Build shows a build until it ends, and returns what it failed of.
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

// follower reads a build's events, across broken connections.
type follower struct {
	c    *session.Client
	id   string
	show func(event) error

	silence  time.Duration // until a connection that says nothing is taken for dead
	patience time.Duration // with a server that cannot be reached

	last  string        // id of the last event
	retry time.Duration // the server's hint
	heard time.Time     // when the server was there last; zero when never
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

// connect reads events for as long as the connection holds.
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
