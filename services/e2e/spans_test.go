package e2e

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"slipway.dev/services/internal/testkit"
)

// A receiver is an OTLP endpoint that stores spans by trace id in hex.
type receiver struct {
	url string

	mu     sync.Mutex
	traces map[string][]*tracev1.Span
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{traces: map[string][]*tracev1.Span{}}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

// settings returns the settings to export traces to the receiver without delay.
func (r *receiver) settings() settings {
	return settings{"OTEL_EXPORTER_OTLP_ENDPOINT": r.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var batch collector.ExportTraceServiceRequest
	if err != nil || proto.Unmarshal(body, &batch) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rs := range batch.GetResourceSpans() {
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				id := hex.EncodeToString(s.GetTraceId())
				r.traces[id] = append(r.traces[id], s)
			}
		}
	}
}

// trace returns the spans of a trace that were received so far.
func (r *receiver) trace(id string) []*tracev1.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.traces[id])
}

func (r *receiver) ids() (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.traces {
		ids = append(ids, id)
	}
	return ids
}

// path returns the names of a span and its ancestors, outermost first; nil if an ancestor is
// missing.
func path(trace []*tracev1.Span, s *tracev1.Span, root string) []string {
	if hex.EncodeToString(s.GetParentSpanId()) == root {
		return []string{s.GetName()}
	}
	for _, above := range trace {
		if string(above.GetSpanId()) == string(s.GetParentSpanId()) {
			if p := path(trace, above, root); p != nil {
				return append(p, s.GetName())
			}
		}
	}
	return nil
}

// leads waits until a trace has a span with the last of the names whose ancestors include the
// other names in order, and returns the span.
func (r *receiver) leads(t *testing.T, id, root string, names ...string) *tracev1.Span {
	t.Helper()
	var found *tracev1.Span
	err := within(30*time.Second, func() error {
		spans := r.trace(id)
		var paths []string
		for _, s := range spans {
			p := path(spans, s, root)
			if len(p) > 0 && p[len(p)-1] == names[len(names)-1] && inOrder(p, names) {
				found = s
				return nil
			}
			paths = append(paths, s.GetName()+" "+fmt.Sprint(p))
		}
		return fmt.Errorf("no span is below %q; there are\n%s", names, strings.Join(paths, "\n"))
	})
	if err != nil {
		t.Error(err)
	}
	return found
}

// inOrder reports whether a list contains all wanted names in order.
func inOrder(list, wanted []string) bool {
	for _, s := range list {
		if len(wanted) > 0 && s == wanted[0] {
			wanted = wanted[1:]
		}
	}
	return len(wanted) == 0
}

// root is the id of the client's span.
const root = "b7ad6b7169203331"

// newTrace returns the id of a trace that a client has started.
func newTrace() string { return fmt.Sprintf("%032x", time.Now().UnixNano()) }

func TestTracesGoFromGatewayToUpstream(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	r := newReceiver(t)
	eachShape(t, []string{up.Host}, r.settings(), func(t *testing.T, p *program) {
		asked := newTrace()
		answer := p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": image}, "traceparent", "00-"+asked+"-"+root+"-01")
		r.leads(t, asked, root, "POST /v1alpha2/container", "slipway.container.v1.ContainerService/SubmitContainer", "upstream HEAD manifest")
		pull(t, text(answer.json(t), "targetImage"), "amd64")
		if err := within(30*time.Second, func() error {
			for _, id := range r.ids() {
				if spans := r.trace(id); slices.ContainsFunc(spans, func(s *tracev1.Span) bool {
					return slices.Equal(path(spans, s, ""), []string{"GET /v2/wt/*/manifests", "upstream GET manifest"})
				}) {
					return nil
				}
			}
			return fmt.Errorf("none of %d traces leads from a pull to the upstream", len(r.ids()))
		}); err != nil {
			t.Error(err)
		}
	})
}

// TestTraceOfABuild checks the trace of a request through NATS to the worker's push and back,
// and of a pull that waits for the build.
func TestTraceOfABuild(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	r := newReceiver(t)
	eachBuildShape(t, []string{up.Host}, r.settings(), func(t *testing.T, p *program) {
		asked, pulled := newTrace(), newTrace()
		base := up.Push(t, "base/busybox:1", busybox(t, true))
		first := p.order(recipe("FROM "+base, "RUN sleep 2; echo built"), "traceparent", "00-"+asked+"-"+root+"-01")
		target := text(first, "targetImage")
		got := request(t, http.MethodGet, v2(target)+"/manifests/"+target[strings.LastIndexByte(target, ':')+1:], nil,
			"traceparent", "00-"+pulled+"-"+root+"-01")
		if got.status != http.StatusOK {
			t.Fatalf("the pull returned %d %s", got.status, got.body)
		}
		built := []string{"POST /v1alpha2/container", "slipway.build.v1.BuildService/SubmitBuild", "publish build.jobs", "process build.jobs"}
		r.leads(t, asked, root, append(built, "slipway.build.v1.WorkService/TakeJob")...)
		r.leads(t, asked, root, append(built, "builder build")...)
		r.leads(t, asked, root, append(built, "builder push")...)
		r.leads(t, asked, root, append(built, "publish build.events", "process build.events")...)

		r.leads(t, pulled, root, "GET /v2/wt/*/manifests", "wait for build", "slipway.build.v1.BuildService/AwaitBuild")
		wait := r.leads(t, pulled, root, "GET /v2/wt/*/manifests", "wait for build")
		if wait == nil || len(wait.GetLinks()) != 1 || hex.EncodeToString(wait.GetLinks()[0].GetTraceId()) != asked {
			t.Errorf("the span of the wait is not linked to the build's trace: %v", wait)
		}
	})
}
