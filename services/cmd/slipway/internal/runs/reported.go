package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
)

// reported is a response about runs and tasks, which are free-form documents.
type reported struct {
	Workflow  document
	Progress  progress
	Workflows []struct {
		Workflow document
		Progress progress
	}
	Tasks []struct{ Task document }
}

// readReported makes a call and decodes its response.
func readReported(ctx context.Context, c *session.Client, what session.Call) (raw []byte, r reported, err error) {
	if raw, err = c.Do(ctx, what, nil); err != nil {
		return nil, r, err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&r); err != nil {
		return nil, r, c.Foreign(err)
	}
	return raw, r, nil
}

// progress holds the counts of a run.
type progress struct{ *platformv1.Progress }

// UnmarshalJSON decodes the counts, which the server encodes as protobuf JSON; null is no
// counts.
func (p *progress) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		return nil
	}
	p.Progress = &platformv1.Progress{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, p.Progress); err != nil {
		return fmt.Errorf("reading the counts of a run: %w", err)
	}
	return nil
}

// document is a run or a task as reported.
type document map[string]any

// text returns a member; "" if it is missing.
func (d document) text(name string) string {
	switch v := d[name].(type) {
	case string:
		return v
	case json.Number:
		if f, err := v.Float64(); err == nil {
			return output.Tallied(f)
		}
	}
	return ""
}

// duration returns how long a run took, or has been running.
func (d document) duration() string {
	if n, ok := d["duration"].(json.Number); ok {
		if ms, err := n.Float64(); err == nil {
			return (time.Duration(ms) * time.Millisecond).Round(time.Second).String()
		}
	}
	start, err := time.Parse(time.RFC3339, d.text("start"))
	if err != nil || d.text("status") != "RUNNING" {
		return "-"
	}
	return time.Since(start).Round(time.Second).String()
}
