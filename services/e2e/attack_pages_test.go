package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// foreignRequest is a container request from a page of another origin.
const foreignRequest = `{"containerImage":"registry.invalid/alpine:3.20"}`

// TestAttackForeignRequests sends requests like a browser sends them for a page of another
// origin, and like programs send them, to each listener.
func TestAttackForeignRequests(t *testing.T) {
	t.Parallel()
	p := oneProcess(t, common(t, nil, nil))
	for _, c := range []struct {
		name, method, at string
		host             string
		headers          []string
		want             int
	}{
		{"text/plain from another site", "POST", p.url + "/v1alpha2/container", "", []string{"Content-Type", "text/plain", "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}, 403},
		{"text/plain from another port of this machine", "POST", p.url + "/v1alpha2/container", "", []string{"Content-Type", "text/plain", "Sec-Fetch-Site", "same-site", "Origin", "http://127.0.0.1:1"}, 403},
		{"text/plain to the platform below /api", "POST", p.url + "/api/tokens", "", []string{"Content-Type", "text/plain", "Origin", "https://evil.example"}, 403},
		{"text/plain to the platform's listener", "POST", p.platform + "/tokens", "", []string{"Content-Type", "text/plain", "Origin", "https://evil.example"}, 403},
		{"deletion of images from another port", "POST", p.procs[0].admin + "/images/prune", "", []string{"Sec-Fetch-Site", "same-site", "Origin", p.url}, 403},
		{"DNS rebinding", "GET", p.url + "/v1alpha2/container/x", "evil.example", nil, 421},
		{"DNS rebinding of the registry", "GET", p.url + "/v2/", "evil.example", nil, 421},
		{"DNS rebinding of the platform", "GET", p.platform + "/service-info", "evil.example", nil, 421},
		{"DNS rebinding of profiles", "GET", p.procs[0].admin + "/debug/pprof/cmdline", "evil.example", nil, 421},
		{"DNS rebinding of metrics", "GET", p.procs[0].admin + "/metrics", "evil.example", nil, 421},
		{"curl -d, accepted, for a missing registry", "POST", p.url + "/v1alpha2/container", "", []string{"Content-Type", "application/x-www-form-urlencoded"}, 400},
		{"metrics for a program", "GET", p.procs[0].admin + "/metrics", "localhost", nil, 200},
	} {
		var body io.Reader
		if c.method == http.MethodPost {
			body = strings.NewReader(foreignRequest)
		}
		req, err := http.NewRequestWithContext(t.Context(), c.method, c.at, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = c.host
		for i := 0; i < len(c.headers); i += 2 {
			req.Header.Set(c.headers[i], c.headers[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if _ = resp.Body.Close(); err != nil || resp.StatusCode != c.want {
			t.Errorf("%s: the status is %d, want %d: %s, %v", c.name, resp.StatusCode, c.want, text, err)
		}
	}
}

// TestAttackForeignPagesInChromium opens a page of another origin that sends requests in all
// ways that browsers permit. It also opens the server under an unknown host name.
func TestAttackForeignPagesInChromium(t *testing.T) {
	t.Parallel()
	browser := newChromium(t, chromedp.Flag("host-resolver-rules", "MAP evil.example 127.0.0.1"))
	p := oneProcess(t, common(t, nil, nil))
	const ways = 4
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		to, body := p.url+"/v1alpha2/container", foreignRequest
		_, _ = fmt.Fprintf(w, `<!doctype html><title>foreign</title>
<iframe name="frame"></iframe>
<form method="post" enctype="text/plain" action=%[1]q target="frame"><input name='{"containerImage":"registry.invalid/alpine","x":"' value='"}'></form>
<script>
navigator.sendBeacon(%[1]q, %[2]q);
document.querySelector("form").submit();
Promise.allSettled([
  fetch(%[1]q, {method: "POST", mode: "no-cors", headers: {"Content-Type": "text/plain"}, body: %[2]q}),
  fetch(%[1]q, {method: "POST", mode: "no-cors", body: new Blob([%[2]q])}),
]).then(() => { document.title = "sent" });
</script>`, to, body)
	}))
	t.Cleanup(page.Close)
	for _, at := range []string{page.URL, strings.Replace(page.URL, "127.0.0.1", "evil.example", 1)} {
		b := openTab(t, browser, at)
		b.await(`document.title === "sent"`)
	}
	var statuses []int
	if err := within(time.Minute, func() error {
		if statuses = statusesOf(t, p, http.MethodPost); len(statuses) < 2*ways {
			return fmt.Errorf("%d of %d requests arrived: %v", len(statuses), 2*ways, statuses)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, status := range statuses {
		if status != http.StatusForbidden {
			t.Errorf("the statuses of a foreign page's requests are %v", statuses)
			break
		}
	}
	at, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	rebound := openTab(t, browser, "http://evil.example:"+at.Port()+"/service-info")
	rebound.await(`document.body.innerText.includes("public_url")`)
	own := openTab(t, browser, p.url+"/view/tokens")
	own.signIn(adminToken)
	own.eval(fmt.Sprintf(`fetch("/v1alpha2/container", {method: "POST", headers: {"Content-Type": "application/json"}, body: %q}).then((r) => { document.title = "status " + r.status })`, foreignRequest))
	own.await(`document.title === "status 400"`) // the registry does not exist
}

// statusesOf returns the statuses of the requests with a method from the log.
func statusesOf(t *testing.T, p *program, method string) (list []int) {
	t.Helper()
	for line := range strings.Lines(p.procs[0].log()) {
		var request struct {
			Msg, Method string
			Status      int
		}
		if err := json.Unmarshal([]byte(line), &request); err == nil && request.Msg == "Request" && request.Method == method {
			list = append(list, request.Status)
		}
	}
	return list
}
