package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestAttackTokensInLogs sends a token in every part of a request, and searches the log, the
// traces and the metrics for it.
func TestAttackTokensInLogs(t *testing.T) {
	t.Parallel()
	to := newReceiver(t)
	more := to.settings()
	more["log_level"] = "debug"
	p := oneProcess(t, common(t, nil, more))
	const token = "k7mzq2vd4tyxwn3bpr5hcgaejs"
	encoded := strings.NewReplacer("z", "%7a", "4", "%34").Replace(token)
	paths := []string{"/v1alpha2/container/x?after=" + token + "&token=short"}
	for _, path := range []string{
		"/view/containers/%s", "//v2/wt/%s", "/v2/wt/%s/library/alpine/manifests/3.20", "/v1alpha1/builds/%s", "/v1alpha1/builds/%s/logs",
		"/v1alpha2/container/%s", "/v1alpha2/container/%s/status", "/v1alpha2/container/%s/sif", "/container-token/%s", "/api/v1alpha2/container/%s", "/unknown/%s",
	} {
		paths = append(paths, fmt.Sprintf(path, token), fmt.Sprintf(path, encoded))
	}
	for _, path := range paths {
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			req, err := http.NewRequestWithContext(t.Context(), method, p.url+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Referer", p.url+"/view/containers/"+token)
			req.Header.Set("X-Request-Id", token)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}
	p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": "registry.invalid/" + token + ":1"})
	p.call(http.MethodPost, "/v1alpha1/inspect", map[string]any{"containerImage": p.host + "/wt/" + token + "/library/alpine:3.20"})
	if err := within(time.Minute, func() error {
		if n := strings.Count(p.procs[0].log(), `"msg":"Request"`); n < 2*len(paths)+2 {
			return fmt.Errorf("%d requests are in the log", n)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	metrics := request(t, http.MethodGet, p.procs[0].admin+"/metrics", nil).body
	if err := p.procs[0].stop(); err != nil { // exports all spans
		t.Fatal(err)
	}
	to.mu.Lock()
	defer to.mu.Unlock()
	traces := fmt.Sprint(to.traces)
	for what, text := range map[string]string{"log": p.procs[0].log(), "traces": traces, "metrics": string(metrics)} {
		for i := range len(token) - 7 {
			if at := strings.Index(text, token[i:i+8]); at >= 0 {
				t.Errorf("the %s contain %q: … %s …", what, token[i:i+8], text[max(0, at-200):min(len(text), at+100)])
				break
			}
		}
	}
	if len(to.traces) == 0 || !strings.Contains(traces, "…") {
		t.Errorf("%d traces were exported, which name no token", len(to.traces))
	}
}
