package gateway

import (
	"context"
	"net/http"
	"strconv"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
)

// logs serves a build's log, as text and as Server-Sent Events. The generated code for the
// other paths waits for the end of a response, which a followed log does not have.
type logs struct {
	mux      *runtime.ServeMux
	service  buildv1.BuildServiceClient
	timeouts timeouts
	drained  <-chan struct{} // closed when clients should reconnect elsewhere
}

// text serves GET of logsPath and mirrorLogsPath.
func (l *logs) text(w http.ResponseWriter, r *http.Request, path map[string]string) {
	follow, ok := readFlag(w, r, "follow")
	if !ok {
		return
	}
	times, ok := readFlag(w, r, "times")
	if !ok {
		return
	}
	l.serve(w, r, plain{times: times}, &buildv1.StreamLogsRequest{BuildId: path["build_id"], Follow: follow})
}

// readFlag returns a query parameter that is true or false. Otherwise it writes an error and returns ok = false.
func readFlag(w http.ResponseWriter, r *http.Request, name string) (set, ok bool) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return false, true
	}
	set, err := strconv.ParseBool(text)
	if err != nil {
		WriteMessage(w, http.StatusBadRequest, name+" must be true or false")
		return false, false
	}
	return set, true
}

// events serves GET of eventsPath and mirrorEventsPath. Clients that cannot set Last-Event-ID send it in the
// query.
func (l *logs) events(w http.ResponseWriter, r *http.Request, path map[string]string) {
	last := r.Header.Get("Last-Event-Id")
	if last == "" {
		last = r.URL.Query().Get("lastEventId")
	}
	var after int64
	if last != "" {
		var err error
		if after, err = strconv.ParseInt(last, 10, 64); err != nil || after < 0 {
			WriteMessage(w, http.StatusBadRequest, "Last-Event-ID must be the id of an event of this path")
			return
		}
	}
	times, ok := readFlag(w, r, "times")
	if !ok {
		return
	}
	l.serve(w, r, &events{times: times}, &buildv1.StreamLogsRequest{BuildId: path["build_id"], After: after, Follow: true})
}

// serve writes a log in the requested form. Errors before the first byte are ordinary
// error responses. Later errors abort the connection, so that no client mistakes a truncated
// log for a complete one.
func (l *logs) serve(w http.ResponseWriter, r *http.Request, f form, req *buildv1.StreamLogsRequest) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	ctx, err := runtime.AnnotateContext(ctx, l.mux, r, buildv1.BuildService_StreamLogs_FullMethodName)
	if err != nil {
		writeError(ctx, l.mux, nil, w, r, err)
		return
	}
	out := &transcript{w: w, ctl: http.NewResponseController(w), form: f, stall: l.timeouts.stall}
	c := &copying{out: out, feed: &feed{service: l.service, req: req}, timeouts: l.timeouts, drained: l.drained}
	err = c.run(ctx)
	switch {
	case err == nil:
	case !out.begun:
		writeError(ctx, l.mux, nil, w, r, err)
	default:
		panic(http.ErrAbortHandler)
	}
}
