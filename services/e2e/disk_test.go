package e2e

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/internal/testkit"
)

// TestFullDisk fills the disk of a process up to the reserve and then to the last byte. Builds
// and writes must be rejected with a clear message, and pulls and reads must succeed. When the
// disk has space again, everything must work without a restart.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := testkit.SmallDisk(t, 192<<20)
	up, channel := testkit.NewRegistry(t, testkit.Open), newArtifacts(t)
	base := up.Push(t, "base/one:1", testkit.Image(t, "amd64", true))
	s := bare(channel.URL)
	for k, v := range map[string]string{
		"data_dir": filepath.Join(disk.Dir, "data"), "disk_reserve": "64MiB", "blob_cache": filepath.Join(disk.Dir, "blobs"),
		"limit_requests_anonymous": "0", "limit_builds_anonymous": "0", "limit_platform": "0",
		// nats-server has a data race when JetStream is enabled again while clients make requests.
		thisProgram: plain(),
	} {
		s[k] = v
	}
	p := oneProcess(t, common(t, []string{up.Host}, s))
	proc := p.procs[0]
	built := text(p.order(environment(base, "libzlib")), "targetImage")
	served := p.submit(map[string]any{"containerImage": base, "containerConfig": map[string]any{"env": []string{"A=b"}}})
	// pulls checks that old names can be pulled, and an image that was never pulled before.
	pulls := func(t *testing.T, fresh string) {
		t.Helper()
		pull(t, built, "amd64")
		pull(t, served, "amd64")
		if fresh != "" {
			pull(t, p.submit(map[string]any{"containerImage": up.Push(t, "base/"+fresh+":1", testkit.Image(t, "amd64", true))}), "amd64")
		}
		p.platformCall(http.MethodGet, "/user-info", p.token, nil)
	}
	// diskIs waits until /readyz reports whether the disk has space.
	diskIs := func(t *testing.T, ok bool) {
		t.Helper()
		testkit.Until(t, fmt.Sprintf("the disk is ok: %v", ok), func() error {
			r := request(t, http.MethodGet, proc.admin+"/readyz", nil)
			if r.status != http.StatusOK || strings.Contains(string(r.body), `"disk":{"ok":true`) != ok {
				return fmt.Errorf("got %d %s", r.status, r.body)
			}
			return nil
		})
	}
	// refuses waits until a request is refused with 507, and checks its message.
	refuses := func(t *testing.T, message string, ask func() reply) {
		t.Helper()
		if err := within(time.Minute, func() error {
			r := ask()
			if r.status != http.StatusInsufficientStorage || !strings.Contains(string(r.body), message) || r.header.Get("Retry-After") == "" {
				return fmt.Errorf("got %d %s", r.status, r.body)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	pulls(t, "two")
	diskIs(t, true)

	disk.Fill(32 << 20)
	diskIs(t, false)
	n := 0
	refuses(t, "disks of this service's workers are almost full", func() reply {
		// Each request differs, since an equal one would join a build that was queued before the
		// worker reported the full disk.
		n++
		another := up.Push(t, fmt.Sprintf("base/another:%d", n), testkit.Image(t, "amd64", true))
		return p.call(http.MethodPost, "/v1alpha2/container", environment(another, "c-ares"))
	})
	pulls(t, "three")
	if r := p.call(http.MethodPost, "/v1alpha1/conda/lock", environment(base, "c-ares")); r.status != http.StatusOK {
		t.Errorf("a lock is answered %d %s", r.status, r.body)
	}
	metrics := string(request(t, http.MethodGet, proc.admin+"/metrics", nil).body)
	for _, want := range []string{`slipway_disk_free_bytes{folder="data_dir"} `, `slipway_disk_size_bytes{folder="data_dir"} 2.01326592e+08`, `slipway_dependency_up{dependency="disk",required="false"} 0`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}

	disk.Fill(0)
	refuses(t, "the service's database is full", func() reply {
		noise := make([]byte, 1<<18)
		_, _ = rand.Read(noise)
		return p.call(http.MethodPost, "/v1alpha2/container", map[string]any{
			"containerImage": base, "containerConfig": map[string]any{"layers": []any{dataLayer(t, "noise", hex.EncodeToString(noise))}},
		})
	})
	for range 3 {
		pulls(t, "")
	}

	disk.Free()
	diskIs(t, true)
	p.platformCall(http.MethodPost, "/tokens", p.token, map[string]any{"name": "afterwards"})
	var made map[string]any
	if err := within(time.Minute, func() error {
		r := p.call(http.MethodPost, "/v1alpha2/container", environment(base, "c-ares"))
		if r.status != http.StatusOK {
			return fmt.Errorf("got %d %s", r.status, r.body)
		}
		made = r.json(t)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if s := p.finished(t, made); s["succeeded"] != true {
		t.Errorf("the build afterwards ended as %v:\n%s", s, p.logOf(made))
	}
	pull(t, text(made, "targetImage"), "amd64")
	pulls(t, "four")
	if log := proc.log(); strings.Contains(log, "Internal error") {
		t.Errorf("the log has an internal error:\n%s", log)
	}
}
