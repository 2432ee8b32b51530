package e2e

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

func TestPullLimits(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Index(t, true, "amd64"))
	limits := settings{"limit_pulls_anonymous": "3/1h", "limit_pulls_user": "5/1m"}
	eachShape(t, []string{up.Host}, limits, func(t *testing.T, p *program) {
		for who, allowed := range map[string]int{"": 3, p.token: 5} {
			target := p.submit(map[string]any{"containerImage": image, "platformAccessToken": who})
			child := everythingAt(t, v2(target)) // reading an index is free
			refused := 0
			for i := range allowed + 2 {
				replica := strings.Replace(v2(target), p.host, p.replicas[i%len(p.replicas)], 1)
				request(t, http.MethodHead, replica+"/manifests/"+child, nil) // HEAD is free too
				r := request(t, http.MethodGet, replica+"/manifests/"+child, nil)
				switch {
				case i < allowed && (r.status != http.StatusOK || r.header.Get("RateLimit-Remaining") != strconv.Itoa(allowed-i-1)):
					t.Errorf("pull %d of %d got %d, %v", i+1, allowed, r.status, r.header)
				case i >= allowed:
					refused++
					checkRefusal(t, r, allowed)
				}
			}
			if refused != 2 {
				t.Errorf("%d of 2 pulls beyond the limit were refused", refused)
			}
		}
	})
}

func checkRefusal(t testing.TB, r reply, limit int) {
	t.Helper()
	after, err := strconv.Atoi(r.header.Get("Retry-After"))
	reset, err2 := strconv.Atoi(r.header.Get("RateLimit-Reset"))
	if r.status != http.StatusTooManyRequests || err != nil || err2 != nil || after < 1 || reset < 1 ||
		r.header.Get("RateLimit-Limit") != strconv.Itoa(limit) || r.header.Get("RateLimit-Remaining") != "0" {
		t.Errorf("beyond the limit: %d, %v", r.status, r.header)
	}
	if !strings.Contains(string(r.body), `"TOOMANYREQUESTS"`) {
		t.Errorf("no OCI error: %s", r.body)
	}
}

func TestGuessingTokensIsCharged(t *testing.T) {
	t.Parallel()
	p := oneProcess(t, common(t, nil, settings{"limit_pulls_anonymous": "3/1h"}))
	statuses := []int{}
	for i := range 5 {
		url := p.url + "/v2/wt/" + strings.Repeat(string(rune('a'+i)), 26) + "/lib/tool/manifests/v1"
		statuses = append(statuses, request(t, http.MethodGet, url, nil).status)
	}
	if statuses[2] != http.StatusNotFound || statuses[4] != http.StatusTooManyRequests {
		t.Errorf("five guesses returned %v", statuses)
	}
}

// TestSearchesDoNotDelayRequests checks that package searches have their own rate limit, and do
// not use that of container requests.
func TestSearchesDoNotDelayRequests(t *testing.T) {
	t.Parallel()
	up, lab := testkit.NewRegistry(t, testkit.Open), webChannel(t)
	image := up.Push(t, "lib/tool:v1", testkit.Index(t, true, "amd64"))
	s := bare(lab.URL)
	s["conda_channels"] = "conda-forge=" + lab.URL + "/lab,bioconda=" + lab.URL + "/lab"
	s["limit_searches_anonymous"], s["limit_requests_anonymous"] = "3/1h", "1/1h"
	eachShape(t, []string{up.Host}, s, func(t *testing.T, p *program) {
		lock := map[string]any{"packages": map[string]any{"type": "CONDA", "entries": []string{"samtools"}}}
		for _, r := range []reply{
			p.call(http.MethodGet, "/v1alpha1/conda/packages?q=sam", nil),
			p.call(http.MethodGet, "/v1alpha1/conda/packages/bioconda/samtools", nil),
			p.call(http.MethodPost, "/v1alpha1/conda/lock", lock),
		} {
			if r.status != http.StatusOK {
				t.Errorf("a search within the limit: %d %s", r.status, r.body)
			}
		}
		if r := p.call(http.MethodGet, "/v1alpha1/conda/packages?q=hts", nil); r.status != http.StatusTooManyRequests || r.header.Get("RateLimit-Limit") != "3" {
			t.Errorf("a fourth search: %d %s", r.status, r.body)
		}
		p.submit(map[string]any{"containerImage": image}) // the one allowed request
		body := map[string]any{"containerImage": image}
		if r := p.call(http.MethodPost, "/v1alpha2/container", body); r.status != http.StatusTooManyRequests {
			t.Errorf("a second request: %d %s", r.status, r.body)
		}
	})
}
