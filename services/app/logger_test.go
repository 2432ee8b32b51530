package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"slipway.dev/services/app"
	"slipway.dev/services/internal/config"
)

// TestLogger writes JSON by default, and text if log_format says so.
func TestLogger(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	app.NewLogger(&out, config.Config{LogLevel: "info"}).With("service", "build").Info("A build began", "build_id", "b_1")
	var line struct {
		Msg, Service string
		BuildID      string `json:"build_id"`
	}
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.Msg != "A build began" || line.Service != "build" || line.BuildID != "b_1" {
		t.Errorf("for programs: %s, %v", out.String(), err)
	}
	out.Reset()
	log := app.NewLogger(&out, config.Config{LogLevel: "info", LogFormat: "text"})
	log.Debug("Nobody asked")
	log.With("service", "build").WithGroup("g").Warn("A build began", "why", "two words")
	want := regexp.MustCompile(`^\d\d:\d\d:\d\d WARN  A build began service=build g\.why="two words"\n$`)
	if !want.MatchString(out.String()) {
		t.Errorf("for people: %q", out.String())
	}
}

// TestLoggerHoldsNoToken logs a token in every kind of value.
func TestLoggerHoldsNoToken(t *testing.T) {
	t.Parallel()
	const token = "k7mzq2vd4tyxwn3bpr5hcgaejs"
	for _, format := range []string{"json", "text"} {
		var out bytes.Buffer
		log := app.NewLogger(&out, config.Config{LogLevel: "debug", LogFormat: format})
		log.With("path", "/v2/wt/"+token).WithGroup(token).Info("Request for "+token,
			"err", fmt.Errorf("reading /view/containers/%s: %w", token, io.ErrUnexpectedEOF), "url", &url.URL{Path: token}, token, 1,
			"nested", map[string][]string{token: {token}}, "bytes", []byte(token))
		slog.NewLogLogger(log.Handler(), slog.LevelError).Print("http: panic serving 127.0.0.1: " + token)
		for i := range len(token) - 7 {
			if strings.Contains(out.String(), token[i:i+8]) {
				t.Errorf("%s: the log holds a token: %s", format, out.String())
				break
			}
		}
		if n := strings.Count(out.String(), "\n"); n != 2 {
			t.Errorf("%s: %d lines are written: %s", format, n, out.String())
		}
	}
}
