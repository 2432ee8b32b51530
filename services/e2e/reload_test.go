package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway.dev/services/internal/testkit"
)

// TestReload changes the file of the settings of a running program and sends SIGHUP.
func TestReload(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Index(t, true, "amd64"))
	channels := condaChannels(t)
	file := filepath.Join(t.TempDir(), "slipwayd.yaml")
	write := func(lines ...string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("limit_requests_anonymous: 1/1h", "conda_channel_alias: "+channels+"/none")
	p := oneProcess(t, common(t, []string{up.Host}, settings{"config": file}))
	request := func() int {
		return p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": image}).status
	}
	search := func() string {
		return string(p.call(http.MethodGet, "/v1alpha1/conda/packages?q=numpy&channel=conda-forge", nil).body)
	}
	if first, second := request(), request(); first != http.StatusOK || second != http.StatusTooManyRequests {
		t.Fatalf("with a limit of one request: %d, %d", first, second)
	}
	if found := search(); strings.Contains(found, `"version"`) {
		t.Fatalf("there is a channel where none is: %s", found)
	}
	reload := func(wants ...string) {
		t.Helper()
		proc := p.procs[0]
		seen := len(proc.log())
		if err := proc.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if err := within(time.Minute, func() error {
				if log := proc.log()[seen:]; !strings.Contains(log, want) {
					return fmt.Errorf("the log does not say %q: %s", want, log)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	write("limit_requests_anonymous: 1000/1h", "conda_channel_alias: "+channels, "log_level: debug", "token_ttl: 1h")
	reload("The settings were reloaded", `"setting":"limit_requests_anonymous","from":"1/1h","to":"1000/1h"`,
		`takes effect after a restart","setting":"token_ttl","from":"36h0m0s","to":"1h0m0s"`)
	if status := request(); status != http.StatusOK {
		t.Errorf("with a higher limit: %d", status)
	}
	if found := search(); !strings.Contains(found, `"version"`) {
		t.Errorf("in the channel of the new setting: %s", found)
	}
	for _, bad := range []string{"limit_requests_anonymous: many", "conda_channels: x", "limit_requests_anonymus: 1/1h"} {
		write(bad, "token_ttl: 1h")
		reload("The settings were not reloaded")
	}
	if status := request(); status != http.StatusOK {
		t.Errorf("after settings that are invalid: %d", status)
	}
}
