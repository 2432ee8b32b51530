package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// series returns the names and labels of our own metrics in a process.
func series(t testing.TB, admin string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for line := range strings.Lines(string(request(t, http.MethodGet, admin+"/metrics", nil).body)) {
		if strings.HasPrefix(line, "slipway_") {
			out[line[:strings.LastIndexByte(line, ' ')]] = true
		}
	}
	return out
}

// TestMetricsHaveBounds sends arbitrary client input repeatedly. It must not create time series. A
// periodic task of the service may create some once, so that one of the rounds must create none.
func TestMetricsHaveBounds(t *testing.T) {
	t.Parallel()
	if testkit.Real() {
		needBuilds(t)
	}
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	p := oneProcess(t, common(t, []string{up.Host}, settings{"limit_pulls_anonymous": "0"}))
	target := v2(p.submit(map[string]any{"containerImage": image}))
	number := 0
	odd := func(count int) {
		var wg sync.WaitGroup
		for range count {
			number++
			name, port := fmt.Sprintf("odd%d", number), 2+number
			wg.Go(func() { oddities(p, target, name, port) })
		}
		wg.Wait()
	}
	if testkit.Real() { // a new worker has its own series
		p.finished(t, p.order(recipe("FROM "+image, "LABEL made=once")))
	}
	odd(8)
	before := series(t, p.procs[0].admin)
	if len(before) < 100 || len(before) > 3000 {
		t.Errorf("there are %d series", len(before))
	}
	var added []string
	for range 3 {
		odd(32)
		after := series(t, p.procs[0].admin)
		added = added[:0]
		for s := range after {
			if !before[s] {
				added = append(added, s)
			}
		}
		if before = after; len(added) == 0 {
			return
		}
	}
	t.Errorf("each round of requests creates series, the last one %d, for example %s", len(added), slices.Min(added))
}

// oddities sends requests with unusual methods, paths, tokens, names and registries.
func oddities(p *program, target, name string, port int) {
	for _, path := range []string{
		"/" + name, "/" + name + "/" + name, "/v2/" + name, "/v2/wt/" + name + "/x/manifests/" + name, "/v2/wt/" + name + "/x/" + name + "/1",
		"/v1alpha2/container/" + name, "/v1alpha2/container/" + name + "/status", "/v1alpha2/container/" + name + "/" + name,
		"/v1alpha1/builds/" + name, "/v1alpha1/builds/" + name + "/logs", "/v1alpha1/builds/" + name + "/" + name,
		"/api/" + name, "/api/user/" + name, "/api/workflow/" + name, "/v1alpha2/metrics/" + name, "/v1alpha2/metrics/pulls?org=" + name,
		"/slipway.build.v1.BuildService/" + name,
	} {
		p.call(http.MethodGet, path, nil, "X-Request-Id", name, "Authorization", "Bearer "+name, "User-Agent", name)
	}
	p.call(strings.ToUpper(name), "/v1alpha2/container", nil)
	p.call(strings.ToUpper(name), "/v2/", nil)
	p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": "127.0.0.2:" + fmt.Sprint(port) + "/lib/" + name + ":1"})
	p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": name, "towerAccessToken": name, "towerEndpoint": "http://" + name})
	p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerFile": b64("FROM " + name)})
	p.call(http.MethodPost, "/v1alpha1/inspect", map[string]any{"containerImage": "127.0.0.2:" + fmt.Sprint(port) + "/lib/" + name})
	request(p.t, http.MethodGet, target+"/manifests/"+name, nil, "Accept", name)
	request(p.t, http.MethodGet, target+"/blobs/sha256:"+name, nil)
	request(p.t, http.MethodGet, target+"/"+name+"/1", nil)
}
