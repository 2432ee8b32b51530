package engine

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]Repository{
		"127.0.0.1:80/wt/abc/bench/app:1": {"127.0.0.1:80", "wt/abc/bench/app", "1"},
		"host/app@sha256:00":              {"host", "app", "sha256:00"},
	} {
		if got := At(in); got != want {
			t.Errorf("%s: %+v, want %+v", in, got, want)
		}
	}
}

func TestBlobsAreChecked(t *testing.T) {
	t.Parallel()
	const content, digest = "hello", "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, content) }))
	t.Cleanup(server.Close)
	if n, err := Fetch(t.Context(), server.Client(), server.URL+"/"+digest, true); err != nil || n != 5 {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, err := Fetch(t.Context(), server.Client(), server.URL+"/sha256:00", true); err == nil {
		t.Error("other content was accepted")
	}
}
