package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// reported is what the runs and tasks of an answer say of themselves.
type reported struct {
	Workflow  document
	Workflows []struct{ Workflow document }
	Tasks     []struct{ Task document }
}

func readReported(raw []byte) (d reported, err error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&d); err != nil {
		return d, fmt.Errorf("reading what they say of themselves: %w", err)
	}
	return d, nil
}

// document is a run or a task in its own words.
type document map[string]any

// text shows a member; empty when it is not there.
func (d document) text(name string) string {
	switch v := d[name].(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

// duration shows how long a run took, or how long it runs.
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
