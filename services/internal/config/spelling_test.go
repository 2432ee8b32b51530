package config_test

import (
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/internal/config"
)

// TestMisspelt checks the suggestions for misspelt variables, and that unrelated variables
// are allowed.
func TestMisspelt(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"SLIPWAY_DATABSE_URL": "SLIPWAY_DATABASE_URL", "SLIPWAY_HTTP_ADRR": "SLIPWAY_HTTP_ADDR", "SLIPWAY_EGRES_ALLOW": "SLIPWAY_EGRESS_ALLOW",
	} {
		if _, err := config.Misspelt([]string{name + "=x"}); err == nil || !strings.Contains(err.Error(), "did you mean "+want+"?") {
			t.Errorf("%s: %v", name, err)
		}
	}
	unknown, err := config.Misspelt([]string{
		"HOME=/", "SLIPWAY_DATA_DIR=x", "SLIPWAY_TOKEN=x", "SLIPWAY_TEST_REAL=1", "SLIPWAY_SERVICE_HOST=10.0.0.1", "SLIPWAY_PORT=tcp://10.0.0.1:80",
	})
	if err != nil || !slices.Equal(unknown, []string{"SLIPWAY_PORT", "SLIPWAY_SERVICE_HOST"}) {
		t.Errorf("of others: %v, %v", unknown, err)
	}
	if _, err := load(t, nil, nil, "htp_addr: 127.0.0.1:1\n"); err == nil || !strings.Contains(err.Error(), "did you mean http_addr?") {
		t.Errorf("in the file: %v", err)
	}
}

// TestFileIsRead checks that the output of `slipwayd config` can be loaded.
func TestFileIsRead(t *testing.T) {
	t.Parallel()
	want, err := load(t, []string{"--trusted-proxies", "10.0.0.0/8,::1", "--build-cpus", "1.5", "--admin-email", "a@b.c", "--limit-platform", "5/1s"}, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, explain := range []bool{false, true} {
		text := config.File(&want, explain)
		got, err := load(t, nil, nil, text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if config.File(&got, explain) != text {
			t.Errorf("another file came back:\n%s", config.File(&got, explain))
		}
	}
	want.DatabaseURL = "postgres://u:secret@h/d"
	if text := config.File(&want, true); strings.Contains(text, "secret@") || !strings.Contains(text, "#database_url: [redacted]") {
		t.Error("a secret is shown")
	}
}
