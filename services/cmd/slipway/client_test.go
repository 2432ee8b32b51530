package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, s := range []sight{
		{
			name: "the server's own words", ex: exchange{status: 404, answer: `{"message":"The registry has no such image"}`},
			errs: []string{"slipway: requesting ubuntu:24.04: The registry has no such image\n"},
		}, {
			name: "unauthenticated", ex: exchange{status: 401, answer: `{"message":"The access token is not valid"}`},
			errs: []string{"The access token is not valid (sign in with `slipway login`, or set SLIPWAY_TOKEN or --token-file)\n"},
		}, {
			name: "too many", ex: exchange{status: 429, header: map[string]string{"Retry-After": "42"}, answer: `{"message":"Too many builds"}`},
			errs: []string{"Too many builds (try again in 42 seconds)\n"},
		}, {
			name: "too many, and when", ex: exchange{status: 429, header: map[string]string{"Retry-After": "42"}, answer: `{"message":"Too many builds; try again in 41 s"}`},
			errs: []string{"Too many builds; try again in 41 s\n"},
		}, {
			name: "a date to retry at", ex: exchange{status: 503, header: map[string]string{"Retry-After": "Fri, 02 Jan 2026 00:00:00 GMT"}, answer: `{"message":"Down"}`},
			errs: []string{"Down (try again after Fri, 02 Jan 2026 00:00:00 GMT)\n"},
		}, {
			name: "a page", ex: exchange{status: 502, answer: "<html>\n\x1b[31m" + strings.Repeat("x", 300)},
			errs: []string{"the server answered 502 Bad Gateway, and not as a Slipway server does; check --server: <html> xxx", "x…\n"},
		}, {
			name: "JSON of another kind", ex: exchange{status: 500, answer: `["no"]`},
			errs: []string{"500 Internal Server Error", `["no"]`},
		}, {
			name: "a redirect", ex: exchange{status: 301, header: map[string]string{"Location": "https://example.org/x"}},
			errs: []string{"301 Moved Permanently", "it points to https://example.org/x", "give --server"},
		}, {
			name: "a page with success", ex: exchange{answer: "<html>"},
			errs: []string{"does not answer like a Slipway server; check --server"},
		}, {
			name: "no answer with success", ex: exchange{status: 204},
			errs: []string{"does not answer like a Slipway server; check --server"},
		},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.args, s.code = []string{"image", "ubuntu:24.04"}, 1
			s.ex.call, s.ex.body = "POST /v1alpha2/container", plainRequest
			s.check(t)
		})
	}
}

// TestPrefixes checks that the error of each command begins with what it was doing.
func TestPrefixes(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"message":"Unknown"}`)
	})
	for args, want := range map[string]string{
		"inspect ubuntu":  "inspecting ubuntu",
		"status abc123":   "reading the status",
		"describe abc123": "describing the request",
		"revoke abc123":   "revoking the request",
		"info":            "reading the server's version",
	} {
		got := slipway(t.Context(), map[string]string{"SLIPWAY_SERVER": url}, strings.Fields(args)...)
		if want := "slipway: " + want + ": Unknown\n"; got.code != 1 || got.out != "" || got.errs != want {
			t.Errorf("slipway %s: got %+v, want %q", args, got, want)
		}
	}
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	l.Close()
	got := slipway(t.Context(), nil, "status", "secret123", "--server", url)
	want := "slipway: reading the status: no server answers at " + url + "; start one with `slipwayd serve`, or choose another with --server, SLIPWAY_SERVER or `slipway config use`: "
	if got.code != 1 || !strings.HasPrefix(got.errs, want) || strings.Contains(got.errs, "secret123") {
		t.Errorf("got %+v, want %q", got, want)
	}
}

// TestShortWait checks that calls which are too fast are delayed rather than failed.
func TestShortWait(t *testing.T) {
	t.Parallel()
	calls := 0
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if calls++; calls == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		if !strings.Contains(string(body), "ubuntu") {
			t.Errorf("the second call sent %q", body)
		}
		_, _ = io.WriteString(w, `{"targetImage":"x"}`)
	})
	if got := slipway(t.Context(), nil, "image", "ubuntu", "--server", url); got.code != 0 || got.out != "x\n" || calls != 2 {
		t.Errorf("got %+v after %d calls", got, calls)
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	got := slipway(t.Context(), nil, "info", "--server", url, "--timeout", "20ms")
	if want := url + " did not respond within 20ms; allow it more with --timeout"; got.code != 1 || !strings.Contains(got.errs, want) {
		t.Errorf("got %+v, want %q", got, want)
	}
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	got := slipway(ctx, nil, "info", "--server", url)
	if got.code != 1 || !strings.Contains(got.errs, "interrupted") {
		t.Errorf("got %+v, want an interrupt", got)
	}
}

func TestInvalidResponse(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "{")
	})
	got := slipway(t.Context(), nil, "info", "--server", url)
	if want := "talking to " + url + ": unexpected EOF"; got.code != 1 || !strings.Contains(got.errs, want) {
		t.Errorf("got %+v, want %q", got, want)
	}
}

func TestEndlessResponse(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for chunk := make([]byte, 1<<20); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	got := slipway(t.Context(), nil, "info", "--server", url)
	if got.code != 1 || !strings.Contains(got.errs, "the response is larger than 40000000 bytes") {
		t.Errorf("got %+v, want the limit", got)
	}
}
