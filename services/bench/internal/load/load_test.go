package load

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestLoadCountsEveryCall(t *testing.T) {
	t.Parallel()
	var answered atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/good" || r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusTeapot)
		}
		answered.Add(1)
		_, _ = io.Copy(w, r.Body)
	}))
	t.Cleanup(server.Close)
	good := Load{Call: Call{http.MethodPost, server.URL + "/good", "{}", "secret"}, Workers: 3, Count: 100}
	s, err := good.Run(t.Context())
	if err != nil || s.Rate <= 0 || s.P50 <= 0 || s.P99 < s.P50 || answered.Load() != 100 {
		t.Errorf("%+v %v after %d answers", s, err, answered.Load())
	}
	paced := good
	paced.Count, paced.Every = 10, time.Millisecond
	if s, err := paced.Run(t.Context()); err != nil || s.Rate > 1200 {
		t.Errorf("one call a millisecond: %+v %v", s, err)
	}
	bad := Load{Call: Get(server.URL + "/bad"), Workers: 3, Count: 100}
	if _, err := bad.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "418") {
		t.Errorf("with an unexpected status: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := good.Run(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context ended: %v", err)
	}
}
