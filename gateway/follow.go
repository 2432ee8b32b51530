package gateway

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
)

// errBroken is returned for a followed log that ended before its build.
var errBroken = status.Error(codes.Unavailable, "the log ended before its build")

// A part is a part of a log, or the error that ended the stream.
type part struct {
	*buildv1.StreamLogsResponse
	err error
}

// feed reads a log from the build service.
type feed struct {
	service buildv1.BuildServiceClient
	req     *buildv1.StreamLogsRequest
}

// open streams the log after an ordinal. The channel's last part is an error: io.EOF at the
// end of the log. The stream ends with ctx.
func (f *feed) open(ctx context.Context, after int64) <-chan part {
	parts := make(chan part)
	req := proto.CloneOf(f.req)
	req.After = after
	go func() {
		stream, err := f.service.StreamLogs(ctx, req)
		for {
			p := part{err: err}
			if err == nil {
				p.StreamLogsResponse, p.err = stream.Recv()
			}
			select {
			case parts <- p:
			case <-ctx.Done():
				return
			}
			if p.err != nil {
				return
			}
		}
	}()
	return parts
}

// copying copies one log from the build service to a client. If a replica of the service
// fails in the middle, copying continues with another replica after the last line.
type copying struct {
	out      *transcript
	feed     *feed
	timeouts timeouts
	drained  <-chan struct{}

	parts  <-chan part
	opened time.Time
	again  <-chan time.Time // when to retry
	tries  int              // retries since the last success
	lost   time.Time        // when the connection was lost; zero while connected
}

// run copies to the end of the log, and returns nil if it was complete.
func (c *copying) run(ctx context.Context) error {
	c.out.last = c.feed.req.GetAfter()
	c.open(ctx)
	silence, keepAlive := time.NewTimer(c.timeouts.silence), time.NewTicker(c.timeouts.keepAlive)
	defer silence.Stop()
	defer keepAlive.Stop()
	for {
		var err error
		select {
		case p := <-c.parts:
			var done bool
			if done, err = c.take(p); done {
				return err
			}
		case <-c.again:
			c.open(ctx)
		case <-silence.C:
			err = c.sign(func() {})
		case <-keepAlive.C:
			err = c.sign(func() { c.out.form.keepAlive(&c.out.b) })
		case <-c.drained:
			err = status.Error(codes.Unavailable, "this replica stops")
		case <-ctx.Done():
			err = status.FromContextError(ctx.Err()).Err()
		}
		if err != nil {
			return err
		}
	}
}

func (c *copying) open(ctx context.Context) {
	c.parts, c.again, c.opened = c.feed.open(ctx, c.out.last), nil, time.Now()
}

// sign sends output without a log line: the response headers or a keep-alive.
func (c *copying) sign(write func()) error {
	c.out.begin()
	write()
	return c.out.send()
}

// take handles a part. The result done reports that copying has ended: the log is complete,
// or err is final.
func (c *copying) take(p part) (done bool, err error) {
	switch {
	case errors.Is(p.err, io.EOF) && !c.feed.req.GetFollow():
		return true, c.sign(func() {})
	case errors.Is(p.err, io.EOF):
		p.err = errBroken
	}
	if p.err != nil {
		err := c.retry(p.err)
		return err != nil, err
	}
	c.lost, c.tries = time.Time{}, 0
	c.out.begin()
	c.out.lines(p.GetLines())
	if p.GetEnded() != nil {
		c.out.form.done(&c.out.b, p.GetEnded(), c.out.last)
	}
	return p.GetEnded() != nil, c.out.send()
}

// retry schedules a retry and returns nil, or returns err if it is final: an error before the
// first byte, after the retry timeout, or of a kind that a retry does not fix.
func (c *copying) retry(err error) error {
	code := status.Code(err) // a service that stops returns Canceled
	if !c.out.begun || code != codes.Unavailable && code != codes.Canceled {
		return err
	}
	if c.lost.IsZero() || time.Since(c.opened) > c.timeouts.retryFor { // new, or the last stream was long but without lines
		c.lost, c.tries = time.Now(), 0
	}
	if time.Since(c.lost) > c.timeouts.retryFor {
		return err
	}
	c.parts, c.again = nil, time.After(min(50*time.Millisecond<<min(c.tries, 5), c.timeouts.retryFor))
	c.tries++
	return nil
}
