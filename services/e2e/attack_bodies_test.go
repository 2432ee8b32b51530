package e2e

import (
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// largeBodies is the number of concurrent large bodies, and mostGrowth the limit of the
// program's growth in bytes: the default of body_memory, and a quarter more for small bodies.
const (
	largeBodies = 20
	mostGrowth  = 256 << 20 * 5 / 4
)

// TestAttackManyLargeBodies sends many bodies of the largest sizes to each API at the same
// time, from several addresses. The program must grow by a bounded amount, and serve the small
// requests of other clients.
func TestAttackManyLargeBodies(t *testing.T) { //nolint:paralleltest // it measures memory
	p := oneProcess(t, common(t, nil, settings{thisProgram: plain(), "trusted_proxies": "127.0.0.1", "limit_requests_anonymous": "0", "limit_platform": "0"}))
	text := strings.Repeat("a", 15_900_000)
	layer := func(n int) string {
		content := make([]byte, n)
		for i := range content {
			content[i] = byte(rand.Uint32())
		}
		return `{"location":"data:` + base64.StdEncoding.EncodeToString(content) + `","gzipDigest":"sha256:` + strings.Repeat("a", 64) + `","tarDigest":"sha256:` + strings.Repeat("b", 64) + `"}`
	}
	layers := layer(10_000_000) + "," + layer(10_000_000)
	pid := p.procs[0].cmd.Process.Pid
	before := memoryOf(t, pid, "VmRSS:")
	for _, c := range []struct {
		name, path, body, token string
		want                    []int
	}{
		{"two layers of 10 MB", "/v1alpha2/container", `{"containerImage":"a","containerConfig":{"layers":[` + layers + `]}}`, "", []int{400, 429, 503}},
		{"a string of 32 MB", "/v1alpha2/container", `{"containerImage":"a","fingerprint":"` + text + text + `"}`, "", []int{400, 503}},
		{"a string of 16 MB", "/v1alpha2/container", `{"containerImage":"a","fingerprint":"` + text + `"}`, "", []int{400, 503}},
		{"inspection", "/v1alpha1/inspect", `{"containerImage":"` + text + text + `"}`, "", []int{400, 503}},
		{"the platform without a token", "/api/trace/create", `{"runName":"` + text + `"}`, "", []int{403}},
		{"the platform with a wrong token", "/api/trace/create", `{"runName":"` + text + `"}`, "wrong", []int{403}},
		{"the platform with a token", "/api/trace/create", `{"runName":"` + text + `"}`, p.token, []int{200, 400, 503}},
	} {
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for i := range largeBodies {
			all.Go(func() {
				if status := p.sendFrom(t, fmt.Sprintf("192.0.%d.%d", i, i), c.path, c.body, c.token, i%2 == 0); !slices.Contains(append(c.want, 0), status) {
					t.Errorf("%s: the status is %d, want one of %v", c.name, status, c.want)
				}
			})
		}
		served := 0
		ended := make(chan struct{})
		go func() { all.Wait(); close(ended) }()
		for over := false; !over; served++ {
			begun := time.Now()
			if r := request(t, http.MethodPost, p.url+"/v1alpha2/container", map[string]any{"containerImage": "UPPER"}, "X-Forwarded-For", "198.51.100.1"); r.status != http.StatusBadRequest || time.Since(begun) > 5*time.Second {
				t.Errorf("%s: another client's small request got %d after %s: %s", c.name, r.status, time.Since(begun), r.body)
			}
			select {
			case <-ended:
				over = true
			case <-time.After(50 * time.Millisecond):
			}
		}
		growth := memoryOf(t, pid, "VmHWM:") - before
		t.Logf("%s: %d MB more than %d MB; %d small requests were served", c.name, growth/1_000_000, before/1_000_000, served)
		if growth > mostGrowth {
			t.Errorf("%s: the program grew by %d MB", c.name, growth/1_000_000)
		}
	}
}

// sendFrom sends a body from an address, with a content length or in chunks, and returns the
// status; 0 if the connection was closed before the body was sent.
func (p *program) sendFrom(t *testing.T, address, path, body, token string, chunked bool) int {
	t.Helper()
	var r io.Reader = strings.NewReader(body)
	if chunked {
		r = io.MultiReader(r)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+path, r)
	if err != nil {
		t.Error(err)
		return 0
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Forwarded-For", address)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	own := &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := own.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}
