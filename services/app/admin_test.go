package app

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestReadiness checks that a dependency which was never reached makes a process unready,
// and that a lost one does not.
func TestReadiness(t *testing.T) {
	t.Parallel()
	var database, redis error
	a := &App{parts: []parts{
		{checks: []check{newCheck("database", required, func(context.Context) error { return database })}},
		{checks: []check{newCheck("redis", optional, func(context.Context) error { return redis })}},
	}}
	lost := errors.New("connection refused")
	for _, step := range []struct {
		name            string
		database, redis error
		draining        bool
		want            int
	}{
		{"the database is not there yet", lost, nil, false, http.StatusServiceUnavailable},
		{"without Redis", nil, lost, false, http.StatusOK},
		{"the database is lost again", lost, nil, false, http.StatusOK},
		{"draining", nil, nil, true, http.StatusServiceUnavailable},
	} {
		database, redis = step.database, step.redis
		a.draining.Store(step.draining)
		w := httptest.NewRecorder()
		a.readyz(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
		if w.Code != step.want {
			t.Errorf("%s: %d %s", step.name, w.Code, w.Body)
		}
	}
}
