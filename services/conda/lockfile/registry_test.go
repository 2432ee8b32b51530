package lockfile_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"slipway.dev/services/conda/lockfile"
	"slipway.dev/services/conda/spec"
)

// TestLockOfRegistry reads and writes a lock of packages in a registry.
func TestLockOfRegistry(t *testing.T) {
	t.Parallel()
	const one = "oci://ghcr.io/channel-mirrors/conda-forge/linux-64/a-1!2+x-h0_3.conda"
	sum := strings.Repeat("ab", 32)
	lock, err := lockfile.Read("# platform: linux-64\n@EXPLICIT\n"+one+"#sha256:"+sum+"\n", "")
	if err != nil || len(lock.Platforms) != 1 || len(lock.Platforms[0].Packages) != 1 {
		t.Fatalf("%+v, %v", lock, err)
	}
	if r := lock.Platforms[0].Packages[0]; r.Channel != "oci://ghcr.io/channel-mirrors/conda-forge" || r.Subdir != "linux-64" || r.Name != "a" || r.Version != "1!2+x" || r.URL != one {
		t.Errorf("%+v", r)
	}
	if text, err := lock.Platforms[0].Explicit(true); err != nil || !strings.Contains(text, one+"#sha256:"+sum) {
		t.Errorf("%q, %v", text, err)
	}
	for _, bad := range []string{"oci://u:p@ghcr.io/lab/linux-64/a-1-0.conda", "oci://ghcr.io/lab/linux-64/a-1-0.conda?x", "oci:lab/linux-64/a-1-0.conda"} {
		if lock, err := lockfile.Read("@EXPLICIT\n"+bad+"\n", ""); err == nil {
			t.Errorf("%s: %+v", bad, lock)
		}
	}
	if m, err := spec.ParseMatchSpec("oci://ghcr.io/channel-mirrors/conda-forge/linux-64::a>=1"); err != nil || m.Channel != "oci://ghcr.io/channel-mirrors/conda-forge" || m.Subdir != "linux-64" {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestChannelLoginOfRegistry checks that a registry gets a user name and a password, whatever
// the user name is, and another host or scheme gets nothing.
func TestChannelLoginOfRegistry(t *testing.T) {
	t.Parallel()
	at, err := url.Parse("oci://ghcr.io/team/lab")
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"ada", "token", "bearer"} {
		for address, want := range map[string]bool{"oci://ghcr.io/team/lab/linux-64/repodata.json": true, "https://ghcr.io/team/lab/linux-64/repodata.json": false, "oci://example.org/team/lab/linux-64/repodata.json": false} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := spec.ChannelLogin{Channel: at, Username: user, Password: "s3cret"}.Authorize(req)
			name, password, _ := req.BasicAuth()
			if got != want || (name == user && password == "s3cret") != want || req.URL.String() != address {
				t.Errorf("%s as %s: %v, %q, %s", address, user, got, name, req.URL)
			}
		}
	}
}
