package client

import (
	"context"
	"fmt"
	"time"
)

// pollPause is the time between two calls for the state of a request.
const pollPause = time.Second

// Watch has the functions that a wait calls. Each may be nil. An error of a function ends the
// wait.
type Watch struct {
	// Begin is called before a build is followed. Wait returns its error unchanged.
	Begin func(ctx context.Context, buildID string) error
	// Event is called with each event of a build.
	Event func(Event) error
}

// A WaitError is returned if a wait ends before its build, which continues.
type WaitError struct {
	BuildID string
	Err     error
}

// Error returns the cause.
func (e *WaitError) Error() string { return e.Err.Error() + "; the build continues" }

// Unwrap returns the cause.
func (e *WaitError) Unwrap() error { return e.Err }

// Wait follows the builds of a container request until its image exists. An image for two
// platforms has two builds, and the request's status names the one that it waits for.
//
// The error is a *BuildError if a build failed, a *ScanError if a required scan did not allow the image, else a *WaitError or that of Begin.
func (c *Client) Wait(ctx context.Context, requestID, buildID string, w Watch) error {
	followed := map[string]bool{"": true}
	for {
		if !followed[buildID] {
			followed[buildID] = true
			if err := c.waitForBuild(ctx, buildID, w); err != nil {
				return err
			}
		}
		if requestID == "" {
			return nil
		}
		now, err := c.Status(ctx, requestID)
		if err != nil {
			return &WaitError{BuildID: buildID, Err: fmt.Errorf("reading the status: %w", err)}
		}
		if now.GetStatus() == "DONE" {
			if !now.GetSucceeded() && now.GetReasonCode() == "scan" {
				return &ScanError{ScanID: now.GetScanId(), Message: now.GetMessage()}
			}
			end := Result{Succeeded: now.GetSucceeded(), ReasonCode: now.GetReasonCode()}
			return end.Err(now.GetBuildId())
		}
		if buildID = now.GetBuildId(); followed[buildID] && !pause(ctx) {
			return &WaitError{BuildID: buildID, Err: ctx.Err()}
		}
	}
}

// waitForBuild follows one build.
func (c *Client) waitForBuild(ctx context.Context, id string, w Watch) error {
	if w.Begin != nil {
		if err := w.Begin(ctx, id); err != nil {
			return err
		}
	}
	each := w.Event
	if each == nil {
		each = func(Event) error { return nil }
	}
	end, err := c.Follow(ctx, id, each)
	if err != nil {
		return &WaitError{BuildID: id, Err: err}
	}
	return end.Err(id)
}

// pause returns false if the context ended.
func pause(ctx context.Context) bool {
	select {
	case <-time.After(pollPause):
		return true
	case <-ctx.Done():
		return false
	}
}
