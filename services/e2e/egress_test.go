package e2e

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestEgress requests addresses that the service must not reach for any caller.
func TestEgress(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	gz, tar := testkit.Tar(t, "f", "x")
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
	}))
	t.Cleanup(inside.Close)
	eachShape(t, []string{up.Host}, nil, func(t *testing.T, p *program) {
		for name, body := range map[string]map[string]any{
			"image at the metadata address":                {"containerImage": "169.254.169.254/latest/meta-data:v1"},
			"image at a private address":                   {"containerImage": "10.0.0.1/x/y:v1"},
			"image at an IPv6 address":                     {"containerImage": "[fd00:ec2::254]/x/y:v1"},
			"layer at the metadata address":                {"containerImage": image, "containerConfig": map[string]any{"layers": []any{layer("http://169.254.169.254/latest", gz, tar)}}},
			"layer that redirects to the metadata address": {"containerImage": image, "containerConfig": map[string]any{"layers": []any{layer(inside.URL, gz, tar)}}},
			"layer at a mapped address":                    {"containerImage": image, "containerConfig": map[string]any{"layers": []any{layer("http://[::ffff:10.0.0.1]/x", gz, tar)}}},
			"layer at a decimal address":                   {"containerImage": image, "containerConfig": map[string]any{"layers": []any{layer("http://2852039166/x", gz, tar)}}},
		} {
			t.Run(name, func(t *testing.T) {
				r := p.call(http.MethodPost, "/v1alpha2/container", body)
				if r.status != http.StatusBadRequest {
					t.Errorf("returned %d %s", r.status, r.body)
				}
			})
		}
		t.Run("validate-creds", func(t *testing.T) {
			r := p.call(http.MethodPost, "/v1alpha2/validate-creds", map[string]any{"userName": "u", "password": "p", "registry": "169.254.169.254"})
			if r.status != http.StatusBadRequest || !strings.Contains(string(r.body), "not a public address") {
				t.Errorf("returned %d %s", r.status, r.body)
			}
		})
		t.Run("inspect", func(t *testing.T) {
			r := p.call(http.MethodPost, "/v1alpha1/inspect", map[string]any{"containerImage": "192.168.1.1/x/y:v1"})
			if r.status != http.StatusBadRequest {
				t.Errorf("returned %d %s", r.status, r.body)
			}
		})
	})
}

// TestEgressIsClosedByDefault starts the program without egress_allow.
func TestEgressIsClosedByDefault(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	p := oneProcess(t, common(t, []string{up.Host}, settings{"egress_allow": ""}))
	up.Requests() // discards the requests of the test itself
	r := p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": image})
	if r.status != http.StatusBadRequest || !strings.Contains(string(r.body), "not a public address") || len(up.Requests()) > 0 {
		t.Errorf("loopback was reached: %d %s", r.status, r.body)
	}
}
