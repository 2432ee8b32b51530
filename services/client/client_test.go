package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"
	"slipway.dev/services/client"
)

const submitted = `{"requestId": "ab12", "targetImage": "h/wt/tok3n/x:1", "buildId": "beef_1", "someLaterMember": 1}`

func serve(t *testing.T, h http.HandlerFunc) *client.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := client.New(s.URL+"/prefix/", "secret-token")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNew(t *testing.T) {
	t.Parallel()
	for _, server := range []string{"", "slipway.example.org", "ftp://x", "http://", "http://x:y"} {
		if _, err := client.New(server, ""); err == nil || !strings.Contains(err.Error(), "must be a URL such as") {
			t.Errorf("%q: %v", server, err)
		}
	}
}

func TestSubmit(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var sent map[string]any
		if err := json.Unmarshal(body, &sent); err != nil || sent["containerImage"] != "x" {
			t.Errorf("the body is %s, %v", body, err)
		}
		if r.URL.Path != "/prefix/v1alpha2/container" || r.Header.Get("Authorization") != "Bearer secret-token" || r.UserAgent() != "slipway-go" {
			t.Errorf("the request is %s %v", r.URL, r.Header)
		}
		_, _ = io.WriteString(w, submitted)
	})
	raw, res, err := c.Submit(t.Context(), &containerv1.ContainerRequest{ContainerImage: "x"})
	if err != nil || res.GetTargetImage() != "h/wt/tok3n/x:1" || !strings.Contains(string(raw), "someLaterMember") {
		t.Errorf("got %v %s, %v", res, raw, err)
	}
}

// TestRetries checks that a call is repeated only after a short wait that the server requests,
// and only a limited number of times.
func TestRetries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		after  string
		calls  int32
	}{
		{429, "0", 5}, {429, "6", 1}, {429, "soon", 1}, {429, "", 1}, {503, "0", 1}, {500, "0", 1}, {302, "0", 1},
	} {
		var calls atomic.Int32
		server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			calls.Add(1)
			w.Header().Set("Location", "http://elsewhere.invalid/")
			if c.after != "" {
				w.Header().Set("Retry-After", c.after)
			}
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, `{"message": "No", "code": "a.b", "details": {"k": 1}}`)
		})
		_, _, err := server.Submit(t.Context(), &containerv1.ContainerRequest{})
		no, ok := errors.AsType[*client.Error](err)
		if !ok || no.Response.StatusCode != c.status || no.Message != "No" || no.Code != "a.b" || string(no.Details) != `{"k": 1}` || calls.Load() != c.calls {
			t.Errorf("%+v: %d calls, %#v", c, calls.Load(), err)
		}
	}
}

// TestErrors checks the kinds of errors, and that none contains a token.
func TestErrors(t *testing.T) {
	t.Parallel()
	answers := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for name, c := range map[string]struct {
		server http.HandlerFunc
		want   string
	}{
		"HTML":                {answers(200, "<html>"), "does not respond like a Slipway server"},
		"no name":             {answers(200, "{}"), "the response has no image name"},
		"HTML as 502":         {answers(502, "<html>"), "502 Bad Gateway, and not as a Slipway server"},
		"a broken connection": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "calling http://127.0.0.1"},
		"too large":           {answers(200, strings.Repeat(" ", client.MaxResponse+1)), "larger than 40000000 bytes"},
		"a truncated response": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			_, _ = io.WriteString(w, "{")
		}, "unexpected EOF"},
		"a revocation": {answers(404, `{"message": "No such request"}`), "No such request"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, c.server)
			_, _, err := server.NewName(t.Context(), "tok3n")
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "tok3n") {
				t.Errorf("got %v, want %q", err, c.want)
			}
			server.Explain = func(err error) error { return fmt.Errorf("explained: %w", err) }
			if _, _, err := server.NewName(t.Context(), "tok3n"); name != "too large" && !strings.HasPrefix(err.Error(), "explained: ") {
				t.Errorf("the error is not explained: %v", err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := serve(t, answers(200, "{}")).Status(ctx, "ab12"); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call returned %v", err)
	}
}

func TestConflict(t *testing.T) {
	t.Parallel()
	const data = `"conflict": {"summary": "No"}, "suggestions": [{"change": "leave out b", "packages": ["a"]}]`
	for _, body := range []string{`{"message": "No", "code": "conda.conflict", ` + data + `}`, `{"message": "No", "code": "conda.conflict", "details": {` + data + `}}`} {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, body)
		})
		_, _, err := c.Lock(t.Context(), &condav1.LockQuery{})
		no, _ := errors.AsType[*client.Error](err)
		if no == nil {
			t.Fatalf("got %v", err)
		}
		if got, err := no.Conflict(); err != nil || got.GetConflict().GetSummary() != "No" || got.GetSuggestions()[0].GetChange() != "leave out b" {
			t.Errorf("got %v, %v", got, err)
		}
	}
}

func TestCalls(t *testing.T) {
	t.Parallel()
	var got string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Method + " " + strings.TrimPrefix(r.URL.EscapedPath(), "/prefix") + " " + r.URL.RawQuery
		_, _ = io.WriteString(w, `{"targetImage": "x", "requestId": "y", "container": {}}`)
	})
	ctx := t.Context()
	for want, call := range map[string]func() error{
		"POST /v1alpha2/container/a%2Fb/name ":          func() error { _, _, err := c.NewName(ctx, "a/b"); return err },
		"GET /v1alpha2/container/%2E%2E/status ":        func() error { _, err := c.Status(ctx, ".."); return err },
		"GET /v1alpha1/builds/b_1/logs ":                func() error { return c.Log(ctx, "b_1", func(string) {}) },
		"GET /v1alpha1/builds/b_1/lock format=pixi":     func() error { _, err := c.BuildLockFile(ctx, "b_1", "pixi"); return err },
		"POST /v1alpha1/conda/lock ":                    func() error { _, err := c.LockFile(ctx, &condav1.LockQuery{Format: "explicit"}); return err },
		"GET /v1alpha1/conda/packages command=a+b":      func() error { _, _, err := c.Search(ctx, url.Values{"command": {"a b"}}); return err },
		"POST /v1alpha1/inspect platform=linux%2Farm64": func() error { _, _, err := c.Inspect(ctx, &inspectv1.ImageQuery{}, "linux/arm64"); return err },
	} {
		if err := call(); err != nil || got != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
}

// TestWait follows the two builds of a request, across a connection that breaks.
func TestWait(t *testing.T) {
	t.Parallel()
	var connections, polls atomic.Int32
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch path := strings.TrimPrefix(r.URL.Path, "/prefix"); {
		case path == "/v1alpha2/container/ab12/status":
			if polls.Add(1) == 1 {
				_, _ = io.WriteString(w, `{"status": "PENDING", "buildId": "beef_2"}`)
				return
			}
			_, _ = io.WriteString(w, `{"status": "DONE", "succeeded": true}`)
		case path == "/v1alpha1/builds/beef_1/events" && connections.Add(1) == 1:
			_, _ = io.WriteString(w, "retry: 1\n\nevent: phase\ndata: fetch\n\nevent: log\nid: 1\ndata: one\n\nevent: log\ndata: half")
		case path == "/v1alpha1/builds/beef_1/events":
			if r.Header.Get("Last-Event-ID") != "1" {
				t.Errorf("reconnected with %v", r.Header)
			}
			_, _ = io.WriteString(w, "event: log\nid: 2\ndata: two\n\nevent: done\ndata: {\"succeeded\":true}\n\n")
		default:
			_, _ = io.WriteString(w, "event: done\ndata: {\"succeeded\":true}\n\n")
		}
	})
	var heard []string
	err := c.Wait(t.Context(), "ab12", "beef_1", client.Watch{
		Begin: func(_ context.Context, id string) error { heard = append(heard, id); return nil },
		Event: func(e client.Event) error { heard = append(heard, e.Kind+" "+e.Text); return nil },
	})
	if want := []string{"beef_1", "phase fetch", "log one", "log two", "beef_2"}; err != nil || !slices.Equal(heard, want) {
		t.Errorf("got %q, %v; want %q", heard, err, want)
	}
}

func TestWaitFails(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch path := strings.TrimPrefix(r.URL.Path, "/prefix"); {
		case strings.HasSuffix(path, "beef_1/events"):
			_, _ = io.WriteString(w, "event: done\ndata: {\"succeeded\":false,\"reasonCode\":\"build\",\"message\":\"exit code 3\"}\n\n")
		case strings.HasSuffix(path, "/status"):
			_, _ = io.WriteString(w, `{"status": "PENDING"}`)
		}
	})
	err := c.Wait(t.Context(), "ab12", "beef_1", client.Watch{})
	if failed, ok := errors.AsType[*client.BuildError](err); !ok || failed.BuildID != "beef_1" || err.Error() != "build beef_1 failed (build): exit code 3" {
		t.Errorf("a build that fails: %v", err)
	}
	begin := errors.New("begin")
	if err := c.Wait(t.Context(), "ab12", "beef_1", client.Watch{Begin: func(context.Context, string) error { return begin }}); err != begin { //nolint:errorlint // it must be unchanged
		t.Errorf("an error of Begin: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = c.Wait(ctx, "ab12", "", client.Watch{})
	if w, ok := errors.AsType[*client.WaitError](err); !ok || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(w.Error(), "the build continues") {
		t.Errorf("a wait that is interrupted: %v", err)
	}
}

func Example() {
	// A server, which is http://localhost:9090 otherwise.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1alpha2/container":
			_, _ = io.WriteString(w, `{"requestId": "ab12", "targetImage": "localhost:9090/wt/tok3n/samtools:1.20", "buildId": "beef_1"}`)
		case "/v1alpha1/builds/beef_1/events":
			_, _ = io.WriteString(w, "event: log\nid: 1\ndata: 3 of 3 packages are there\n\nevent: done\ndata: {\"succeeded\": true}\n\n")
		default:
			_, _ = io.WriteString(w, `{"status": "DONE", "succeeded": true}`)
		}
	}))
	defer server.Close()

	ctx := context.Background()
	c, err := client.New(server.URL, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, res, err := c.Submit(ctx, &containerv1.ContainerRequest{
		Packages: &containerv1.Packages{Type: "CONDA", Entries: []string{"samtools=1.20"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = c.Wait(ctx, res.GetRequestId(), res.GetBuildId(), client.Watch{
		Event: func(e client.Event) error {
			fmt.Println(e.Kind+":", e.Text)
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.GetTargetImage())
	// Output:
	// log: 3 of 3 packages are there
	// localhost:9090/wt/tok3n/samtools:1.20
}
