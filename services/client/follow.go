package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// A Result is the result of a build.
type Result struct {
	Succeeded bool `json:"succeeded"`
	// ReasonCode is the kind of failure, e.g. "build" or "timeout"; "" after a success.
	ReasonCode string `json:"reasonCode"`
	// Message explains a failure, and may have several lines.
	Message string `json:"message"`
}

// Err returns a *BuildError for a failed build, and nil if it succeeded.
func (r *Result) Err(buildID string) error {
	if r.Succeeded {
		return nil
	}
	return &BuildError{BuildID: buildID, Result: *r}
}

// Follow calls each once for every event of a build, across broken connections, until the
// build has ended or each returns an error.
func (c *Client) Follow(ctx context.Context, buildID string, each func(Event) error) (*Result, error) {
	return newFollower(c, buildID, each).run(ctx)
}

// follower reads a build's events across broken connections.
type follower struct {
	c    *Client
	id   string
	each func(Event) error

	silence  time.Duration // after this time a silent connection is considered broken
	retryFor time.Duration // how long to retry an unreachable server

	last  string        // id of the last event
	retry time.Duration // the server's reconnection time
	heard time.Time     // when the server last responded; zero for never
}

func newFollower(c *Client, id string, each func(Event) error) *follower {
	return &follower{c: c, id: id, each: each, silence: 45 * time.Second, retryFor: 2 * time.Minute}
}

// run calls each once for every event, until the build has ended.
func (f *follower) run(ctx context.Context) (*Result, error) {
	for {
		end, err := f.connect(ctx)
		if err == nil {
			return end, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("interrupted: %w", ctx.Err())
		}
		if _, isLost := errors.AsType[connectionError](err); !isLost || f.heard.IsZero() || time.Since(f.heard) > f.retryFor {
			return nil, err
		}
		select {
		case <-time.After(cmp.Or(f.retry, time.Second)):
		case <-ctx.Done():
		}
	}
}

// connect reads events until the connection ends.
func (f *follower) connect(ctx context.Context) (*Result, error) {
	header := http.Header{"Accept": {"text/event-stream"}}
	if f.last != "" {
		header.Set("Last-Event-ID", f.last)
	}
	body, err := f.c.Open(ctx, Call{Method: http.MethodGet, Path: pathOf("v1alpha1", "builds", f.id, "events")}, header, f.silence)
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
			return nil, connectionError{f.c.Unreachable(err)}
		}
		if e.Kind == "done" {
			var end Result
			if err := json.Unmarshal([]byte(e.Text), &end); err != nil {
				return nil, f.c.Foreign(err)
			}
			return &end, nil
		}
		if err := f.each(e); err != nil {
			return nil, err
		}
	}
}
