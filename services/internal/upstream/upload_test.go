package upstream_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// TestUpload uploads a blob with two clients: the second continues the upload of the first.
func TestUpload(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("slipway "), 10_000)
	d := digest.FromBytes(content)
	for _, auth := range []testkit.Auth{testkit.Open, testkit.Basic, testkit.Bearer} {
		registry := testkit.NewRegistry(t, auth)
		repo := upstream.Repository{Host: registry.Host, Name: "team/new"}
		access := upstream.Access{Scope: "test"}
		if auth != testkit.Open {
			access.Login = upstream.Login{Username: testkit.User, Password: testkit.Password}
		}
		first, err := newClient(t, newEgress(t, "127.0.0.1"), registry.Host).StartUpload(t.Context(), repo, access)
		if err != nil {
			t.Fatal(err)
		}
		half := int64(len(content) / 2)
		if err := first.Append(t.Context(), bytes.NewReader(content[:half]), half); err != nil {
			t.Fatal(err)
		}
		client := newClient(t, newEgress(t, "127.0.0.1"), registry.Host)
		u, err := client.ContinueUpload(t.Context(), repo, access, first.Location)
		if err != nil || u.Size != half {
			t.Fatalf("the upload continues with %+v, %v", u, err)
		}
		if err := u.Append(t.Context(), bytes.NewReader(content[half:]), int64(len(content))-half); err != nil {
			t.Fatal(err)
		}
		if err := u.Commit(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		b, err := client.Blob(t.Context(), http.MethodHead, repo, d, access, "")
		if err != nil || b.Size != int64(len(content)) {
			t.Errorf("the blob is %+v, %v", b, err)
		}
		if _, err := client.ContinueUpload(t.Context(), repo, access, first.Location); !errors.Is(err, fault.NotFound) {
			t.Errorf("an upload that has ended continues: %v", err)
		}
	}
}

// TestUploadAddress checks that neither the login nor the content is sent to an address that is not
// one of the repository's uploads.
func TestUploadAddress(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request was sent to another server") }))
	t.Cleanup(other.Close)
	const own = "/v2/team/app/blobs/uploads/"
	var location string
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != own {
			t.Errorf("%s %s was requested", r.Method, r.URL)
		}
		w.Header().Set("Location", location)
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(registry.Close)
	host := strings.TrimPrefix(registry.URL, "http://")
	repo, client := upstream.Repository{Host: host, Name: "team/app"}, newClient(t, newEgress(t, "127.0.0.1"), host)
	for _, bad := range []string{
		other.URL + own + "x", "/v2/team/other/blobs/uploads/x", own + "../../../other/blobs/uploads/x", own + "%2e%2e/x", "/elsewhere",
		own + "x?state=" + strings.Repeat("a", 5000),
	} {
		location = bad
		if u, err := client.StartUpload(t.Context(), repo, upstream.Access{}); !errors.Is(err, upstream.ErrUploadAddress) {
			t.Errorf("the address %.80s is used: %+v, %v", bad, u, err)
		}
		if u, err := client.ContinueUpload(t.Context(), repo, upstream.Access{}, bad); !errors.Is(err, upstream.ErrUploadAddress) {
			t.Errorf("an upload at %.80s continues: %+v, %v", bad, u, err)
		}
	}
	location = own + "x?state=y"
	if u, err := client.StartUpload(t.Context(), repo, upstream.Access{}); err != nil || u.Location != location {
		t.Errorf("the upload is %+v, %v", u, err)
	}
}
