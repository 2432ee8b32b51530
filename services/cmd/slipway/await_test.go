package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// sse writes Server-Sent Events.
func sse(w http.ResponseWriter, from, to int, more string) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "retry: 1\n\n: keep-alive\n\n")
	for n := from; n <= to; n++ {
		_, _ = fmt.Fprintf(w, "event: log\nid: %d\ndata: line %d\n\n", n, n)
	}
	_, _ = io.WriteString(w, more)
	_ = http.NewResponseController(w).Flush()
}

const (
	phase   = "event: phase\nid: 0\ndata: build\n\n"
	success = "event: done\nid: 9\ndata: {\"succeeded\":true}\n\n"
	failure = "event: done\nid: 9\ndata: {\"succeeded\":false,\"reasonCode\":\"build\",\"message\":\"RUN ended with 1:\\n  \\u001b[31ma.c:1\\u001b[0m\"}\n\n"
	done    = `{"id":"abc123","status":"DONE","succeeded":true,"buildId":"beef_1"}`
)

// builder is a server with builds. The handler of each path is optional.
type builder struct {
	submit string
	events func(n int, w http.ResponseWriter, r *http.Request) // call n for the events of any build
	status func(n int) string
	// outlook is the status of any build.
	outlook string

	eventCalls, statusCalls atomic.Int32
}

func (b *builder) serve(t *testing.T) string {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			_, _ = io.WriteString(w, b.submit)
		case strings.HasSuffix(r.URL.Path, "/events") && b.events != nil:
			b.events(int(b.eventCalls.Add(1)), w, r)
		case r.URL.Path == "/v1alpha2/container/abc123/status" && b.status != nil:
			_, _ = io.WriteString(w, b.status(int(b.statusCalls.Add(1))))
		case strings.HasSuffix(r.URL.Path, "_1/status"):
			_, _ = io.WriteString(w, b.outlook)
		case r.URL.Path == "/v1alpha1/builds/beef_1": // the build's record, which these tests do not show
			http.NotFound(w, r)
		default:
			t.Errorf("called %s %s", r.Method, r.URL)
			http.NotFound(w, r)
		}
	})
}

func isDone(int) string { return done }

func TestAwait(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		b    *builder
		out  string
		errs string // without elapsed times
		code int
	}{
		{name: "built", b: &builder{submit: builtAnswer, status: isDone, events: func(_ int, w http.ResponseWriter, _ *http.Request) {
			sse(w, 1, 2, success)
		}}, out: builtName, errs: "line 1\nline 2\n"},
		{name: "phases", b: &builder{submit: builtAnswer, status: isDone, events: func(_ int, w http.ResponseWriter, _ *http.Request) {
			sse(w, 1, 0, phase+phase+"event: later\ndata: x\n\nevent: phase\ndata: push\n\n"+success)
		}}, out: builtName, errs: "==> build (0s)\n==> push (0s)\n"},
		{name: "in the queue", b: &builder{submit: builtAnswer, status: isDone, outlook: `{"status":"PENDING","position":3,"expectedStart":84.5,"expectedEnd":126}`,
			events: func(_ int, w http.ResponseWriter, _ *http.Request) { sse(w, 1, 1, success) },
		}, out: builtName, errs: "==> place 3 in the queue, to begin in about 85 s, to end in about 2 min\nline 1\n"},
		{name: "an existing image", b: &builder{submit: strings.Replace(builtAnswer, `"mirror"`, `"succeeded":true,"mirror"`, 1)}, out: builtName},
		{name: "failed", b: &builder{submit: builtAnswer, events: func(_ int, w http.ResponseWriter, _ *http.Request) {
			sse(w, 1, 1, failure)
		}}, errs: "line 1\nslipway: build beef_1 failed (build): RUN ended with 1:\n  a.c:1\n", code: 1},
		{name: "broken connections", b: &builder{submit: builtAnswer, status: isDone, events: func(n int, w http.ResponseWriter, r *http.Request) {
			last := r.Header.Get("Last-Event-ID")
			if want := map[int]string{1: "", 2: "2", 3: "2", 4: "4"}[n]; last != want {
				sse(w, 1, 0, failure)
				return
			}
			switch n {
			case 1:
				sse(w, 1, 2, "event: log\nid: 3\ndata: cut off")
			case 2:
				w.WriteHeader(http.StatusServiceUnavailable)
			case 3:
				sse(w, 3, 4, strings.Replace(phase, "id: 0", "id: 4", 1))
				panic(http.ErrAbortHandler)
			default:
				sse(w, 5, 5, phase+success)
			}
		}}, out: builtName, errs: "line 1\nline 2\nline 3\nline 4\n==> build (0s)\nline 5\n"},
		{name: "two platforms", b: &builder{submit: builtAnswer, status: func(n int) string {
			return map[bool]string{true: `{"status":"BUILDING","buildId":"feed_1"}`, false: done}[n == 1]
		}, events: func(_ int, w http.ResponseWriter, r *http.Request) {
			sse(w, 1, 0, "event: log\nid: 1\ndata: "+r.URL.Path+"\n\n"+success)
		}}, out: builtName, errs: "/v1alpha1/builds/beef_1/events\n/v1alpha1/builds/feed_1/events\n"},
		{name: "the other platform failed", b: &builder{submit: builtAnswer, status: func(int) string {
			return `{"status":"DONE","buildId":"feed_1","succeeded":false,"reasonCode":"push"}`
		}, events: func(_ int, w http.ResponseWriter, _ *http.Request) {
			sse(w, 1, 0, success)
		}}, errs: "slipway: build feed_1 failed (push)\n", code: 1},
		{name: "a server without builds", b: &builder{submit: builtAnswer, events: func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"message":"There is no such build"}`)
		}}, errs: "slipway: There is no such build; the build continues. See more with\n  slipway logs beef_1 -f\n  slipway status abc123\nThe image will be " + builtName, code: 1},
		{name: "terminal control sequences", b: &builder{submit: builtAnswer, status: isDone, events: func(_ int, w http.ResponseWriter, _ *http.Request) {
			sse(w, 1, 0, "event: log\nid: 1\ndata: \x1b[1;32mgreen\x1b[0m\ta\x1b]0;title\x07\ndata: b\n\n"+success)
		}}, out: builtName, errs: "green\ta\uFFFD]0;title\uFFFD\nb\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url := c.b.serve(t)
			got := slipway(t.Context(), nil, "conda", "jq", "--await", "--server", url)
			if got.out != c.out || got.errs != c.errs || got.code != c.code {
				t.Errorf("got %+v\nwant %q and %q", got, c.out, c.errs)
			}
		})
	}
}

// TestAwaitIsInterrupted checks that the build continues, and that the message says how to
// find it.
func TestAwaitIsInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	b := builder{submit: builtAnswer, events: func(_ int, w http.ResponseWriter, r *http.Request) {
		sse(w, 1, 1, "")
		cancel()
		<-r.Context().Done()
	}}
	got := slipway(ctx, nil, "conda", "jq", "--await", "--server", b.serve(t))
	want := "slipway: interrupted; the build continues. See more with\n  slipway logs beef_1 -f\n  slipway status abc123\nThe image will be " + builtName
	if got.code != 1 || got.out != "" || !strings.HasSuffix(got.errs, want) {
		t.Errorf("got %+v, want %q", got, want)
	}
}

func TestLogs(t *testing.T) {
	t.Parallel()
	for _, s := range []sight{
		{
			name: "so far", args: []string{"logs", "beef_1"},
			ex: exchange{call: "GET /v1alpha1/builds/beef_1/logs", answer: "one\n\n\x1b[31mthree\n"}, out: "one\n\nthree\n",
		}, {
			name: "unknown", args: []string{"logs", "beef_1"},
			ex:   exchange{call: "GET /v1alpha1/builds/beef_1/logs", status: 404, answer: `{"message":"There is no such build"}`},
			errs: []string{"slipway: reading the log: There is no such build\n"}, code: 1,
		}, {
			name: "followed", args: []string{"logs", "beef_1", "-f"},
			ex:  exchange{call: "GET /v1alpha1/builds/beef_1/events", answer: phase + "event: log\ndata: one\n\n" + success},
			out: "one\n",
		}, {
			name: "followed to a failure", args: []string{"logs", "beef_1", "-f"},
			ex:  exchange{call: "GET /v1alpha1/builds/beef_1/events", answer: "event: log\ndata: one\n\n" + failure},
			out: "one\n", errs: []string{"slipway: build beef_1 failed (build): RUN ended with 1:\n  a.c:1\n"}, code: 1,
		}, {
			name: "a request without a build", args: []string{"logs", "h/wt/abc123/a:1"},
			ex:   exchange{call: "GET /v1alpha2/container/abc123", answer: `{"requestId":"abc123"}`},
			errs: []string{"nothing was built for this request"}, code: 1,
		},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.check(t)
		})
	}
}

func TestBuilds(t *testing.T) {
	t.Parallel()
	env := map[string]string{"SLIPWAY_TOKEN": "secret"}
	for _, s := range []sight{
		{
			name: "a table", args: []string{"builds", "--max", "3", "--offset", "1"}, env: env,
			ex: exchange{call: "GET /v1alpha1/builds?max=3&offset=1", auth: "Bearer secret", answer: `{"builds":[` +
				`{"buildId":"beef_2","status":"PENDING","startTime":"2026-01-01T00:00:00Z","platform":"linux/amd64","targetImage":"r/b:1"},` +
				`{"buildId":"beef_1","status":"COMPLETED","succeeded":false,"reasonCode":"memory","duration":61.5,"platform":"linux/arm64","targetImage":"r/b:1"},` +
				`{"buildId":"feed_1","status":"COMPLETED","succeeded":true,"duration":3,"targetImage":"127.0.0.1:9092/builds:jq-1.7--feed","served":true,"later":1},` +
				`{"buildId":"f00d_1","targetImage":"127.0.0.1:9092/builds:f00d","served":true}],"totalSize":4}`},
			out: `BUILD   STATUS           STARTED               DURATION  PLATFORM     IMAGE
beef_2  PENDING          2026-01-01T00:00:00Z  -         linux/amd64  r/b:1
beef_1  FAILED (memory)                        1m1.5s    linux/arm64  r/b:1
feed_1  SUCCEEDED                              3s                     jq-1.7
f00d_1                                         -                      -
`,
		}, {
			name: "anonymous", args: []string{"builds"},
			ex:   exchange{call: "GET /v1alpha1/builds", status: 401, answer: `{"message":"An access token is needed"}`},
			errs: []string{"slipway: listing the builds: An access token is needed (sign in with `slipway login`"}, code: 1,
		}, {
			name: "JSON", args: []string{"builds", "-o", "json"}, env: env,
			ex: exchange{call: "GET /v1alpha1/builds", auth: "Bearer secret", answer: `{"totalSize":0}`}, out: "{\n  \"builds\": [],\n  \"totalSize\": 0\n}\n",
		},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.check(t)
		})
	}
}

// TestContainers lists the signed-in user's requests, and passes their ids to other
// commands.
func TestContainers(t *testing.T) {
	t.Parallel()
	env := map[string]string{"SLIPWAY_TOKEN": "secret"}
	key := strings.Repeat("5f", 32)
	for _, s := range []sight{
		{
			name: "a table", args: []string{"containers", "--max", "3", "--page", "1.x"}, env: env,
			ex: exchange{call: "GET /v1alpha1/containers?max=3&pageToken=1.x", auth: "Bearer secret", answer: `{"containers":[` +
				`{"requestId":"k1","containerImage":"127.0.0.1:9092/builds:jq-1.7--feed","containerPlatform":"linux/amd64","buildId":"feed_1","creationTime":"2026-01-01T00:00:00Z","expiration":"2999-01-01T00:00:00Z"},` +
				`{"requestId":"k2","containerImage":"q.example/mine:jq--feed","buildId":"feed_2","freeze":true},` +
				`{"requestId":"k3","containerImage":"docker.io/library/alpine:3","expiration":"2026-01-01T00:00:00Z"},` +
				`{"requestId":"k4","containerImage":"a:1","expiration":"2999-01-01T00:00:00Z","revocationTime":"2026-01-01T00:00:00Z"}],"nextPageToken":"2.y"}`},
			out: `ID  CREATED               NAME WORKS                  PLATFORM     IMAGE
k1  2026-01-01T00:00:00Z  until 2999-01-01T00:00:00Z  linux/amd64  jq-1.7
k2                        always                                   q.example/mine:jq--feed
k3                        expired                                  docker.io/library/alpine:3
k4                        revoked                                  a:1
`, errs: []string{"There are more: slipway containers --page 2.y\n"},
		}, {
			name: "none", args: []string{"containers"}, env: env, ex: exchange{call: "GET /v1alpha1/containers", auth: "Bearer secret", answer: `{}`},
			errs: []string{"No containers yet."},
		}, {
			name: "anonymous", args: []string{"containers"},
			ex:   exchange{call: "GET /v1alpha1/containers", status: 401, answer: `{"message":"An access token is needed"}`},
			errs: []string{"slipway: listing the containers: An access token is needed (sign in with `slipway login`"}, code: 1,
		}, {
			name: "an id revoked", args: []string{"revoke", key}, env: env,
			ex: exchange{call: "DELETE /v1alpha2/container/" + key, auth: "Bearer secret", status: 204}, out: "Revoked.\n",
		}, {
			name: "an id described", args: []string{"describe", key, "-o", "name"}, env: env,
			ex: exchange{call: "GET /v1alpha2/container/" + key, auth: "Bearer secret", answer: `{"requestId":"k"}`}, out: "k\n",
		}, {
			name: "the status of an id", args: []string{"status", key, "-o", "name"}, env: env,
			ex: exchange{call: "GET /v1alpha2/container/" + key + "/status", answer: `{"id":"k"}`}, out: "k\n",
		},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.check(t)
		})
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"image --platform":          "linux/amd64\nlinux/arm64\n:4\n",
		"build -o":                  "text\nwide\njson\nyaml\nname\n:4\n",
		"conda --name-strategy":     "none\ntagPrefix\nimageSuffix\n:4\n",
		"build --build-compression": "gzip\nzstd\nestargz\nzstd:chunked\nerofs\nerofs+zstd\n:4\n",
		"conda -c":                  "conda-forge\nbioconda\n:4\n",
		"build --context":           ":16\n",
		"build -f":                  ":0\n",
	} {
		got := slipway(t.Context(), nil, append(append([]string{"__complete"}, strings.Fields(args)...), "")...)
		if got.out != want {
			t.Errorf("slipway %s: offered %q, want %q", args, got.out, want)
		}
	}
}
