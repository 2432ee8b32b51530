package channel

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"slipway.dev/services/internal/fault"
)

// Ready says whether requests can be answered: an index is there, or a channel answers
// at all.
func (s *Store) Ready(ctx context.Context) error {
	if found, err := filepath.Glob(filepath.Join(s.dir, "*.idx")); err == nil && len(found) > 0 {
		return nil
	}
	s.mu.Lock()
	answered := s.now().Before(s.answered.Add(time.Minute))
	s.mu.Unlock()
	if answered {
		return nil
	}
	c, err := s.Resolve("conda-forge")
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, folder(c.URL, "noarch")+zstdFile, nil)
	if err != nil {
		return err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return unreachable(ctx, req.URL.Host, err)
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 1) // a HEAD has no body
	_ = resp.Body.Close()
	if resp.StatusCode >= http.StatusInternalServerError {
		return fault.Unavailable.Newf("%s answered %d", req.URL.Host, resp.StatusCode)
	}
	s.mu.Lock()
	s.answered = s.now()
	s.mu.Unlock()
	return nil
}
