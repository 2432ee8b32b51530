package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/internal/config"
)

// TestReload reads settings again that have changed.
func TestReload(t *testing.T) {
	t.Parallel()
	running, err := load(t, nil, nil, "limit_pulls_user: 10/1h\ntoken_ttl: 1h\nredis_url: redis://:old@localhost\n")
	if err != nil {
		t.Fatal(err)
	}
	read, err := load(t, nil, nil, "limit_pulls_user: 20/1h\nlog_level: debug\nlimit_builds_anonymous: 25/24h\ntoken_ttl: 2h\nredis_url: redis://:new@localhost\n")
	if err != nil {
		t.Fatal(err)
	}
	got, applied, restart := running.Reload(read)
	want := running
	want.LimitPullsUser, want.LogLevel, want.Given = read.LimitPullsUser, "debug", read.Given
	if diff := cmp.Diff(want, got, values()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]config.Change{{"limit_pulls_user", "10/1h", "20/1h"}, {"log_level", "info", "debug"}}, applied); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]config.Change{{"redis_url", "[redacted]", "[redacted]"}, {"token_ttl", "1h0m0s", "2h0m0s"}}, restart); diff != "" {
		t.Error(diff)
	}
	if _, applied, restart := got.Reload(got); applied != nil || restart != nil {
		t.Errorf("without changes: %v, %v", applied, restart)
	}
}
