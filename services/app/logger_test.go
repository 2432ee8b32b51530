package app_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"testing"

	"slipway.dev/services/app"
	"slipway.dev/services/internal/config"
)

// TestLogger writes for programs where nobody is told otherwise, and for people
// where log_format says so.
func TestLogger(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	app.NewLogger(&out, config.Config{LogLevel: "info"}).With("room", "build").Info("A build began", "build_id", "b_1")
	var line struct {
		Msg, Room string
		BuildID   string `json:"build_id"`
	}
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.Msg != "A build began" || line.Room != "build" || line.BuildID != "b_1" {
		t.Errorf("for programs: %s, %v", out.String(), err)
	}
	out.Reset()
	log := app.NewLogger(&out, config.Config{LogLevel: "info", LogFormat: "text"})
	log.Debug("Nobody asked")
	log.With("room", "build").WithGroup("g").Warn("A build began", "why", "two words")
	want := regexp.MustCompile(`^\d\d:\d\d:\d\d WARN  A build began room=build g\.why="two words"\n$`)
	if !want.MatchString(out.String()) {
		t.Errorf("for people: %q", out.String())
	}
}
