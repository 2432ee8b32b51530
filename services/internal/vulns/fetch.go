package vulns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	"slipway.dev/services/internal/limits"
)

// A validators identifies the version of a file on a web server.
type validators struct {
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"lastModified,omitempty"`
}

// An answer is the result of a request for an archive.
type answer byte

const (
	unchanged answer = iota
	fetched
	absent
)

// refreshURL fetches the archives that have changed, and imports all of them if there is one. Of an ecosystem whose
// archive cannot be fetched or is damaged, the previous archive is imported; the error is returned all the same.
func (s *Source) refreshURL(ctx context.Context) (changed bool, err error) {
	if s.state.Fetched == nil || s.state.Location != s.Location {
		s.state.Fetched, s.state.Location = map[string]validators{}, s.Location
	}
	var archives []Archive
	var problems []error
	for _, e := range Ecosystems() {
		isNew, err := s.update(ctx, e)
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		_, has := s.state.Fetched[e]
		if err != nil {
			problems = append(problems, err)
			if !has && s.current == nil {
				return false, err // without it, images would seem to have no vulnerabilities
			}
		}
		changed = changed || isNew
		if has {
			archives = append(archives, Archive{e, s.archive(e)})
		}
	}
	if len(archives) == 0 {
		return false, errors.Join(append(problems, fmt.Errorf("%s has no archive: expected %s/all.zip, or the same for another ecosystem", s.Location, debian))...)
	}
	if !changed && s.current != nil && !s.state.Incomplete {
		return false, errors.Join(problems...)
	}
	s.state.Incomplete = true // until the archives are imported
	changed, err = s.load(ctx, archives, func() error { s.state.Incomplete = false; return nil })
	if damaged, ok := errors.AsType[*DamagedError](err); ok {
		// It was valid when it was fetched: fetch it again.
		delete(s.state.Fetched, damaged.Archive.Ecosystem)
		err = errors.Join(err, os.Remove(damaged.Archive.Path))
	}
	return changed, errors.Join(append(problems, err)...)
}

// update fetches an archive if the server has a new one, and reports whether it did. A damaged one is not fetched
// again until the server has another.
func (s *Source) update(ctx context.Context, ecosystem string) (changed bool, err error) {
	defer func() { _ = os.Remove(s.part(ecosystem)) }()
	known, had := s.state.Fetched[ecosystem]
	if _, err := os.Stat(s.archive(ecosystem)); err != nil {
		delete(s.state.Fetched, ecosystem)
		had = false
	}
	bad, isBad := s.damaged[ecosystem]
	if isBad {
		known = bad.validators
	}
	a, v, err := s.fetch(ctx, ecosystem, known, had || isBad)
	switch {
	case err != nil:
		return false, err
	case a == unchanged && isBad:
		return false, bad.err
	case a == absent && had:
		return false, fmt.Errorf("%s no longer has the archive of %s; the previous one is still used", s.Location, ecosystem)
	case a != fetched:
		return false, nil
	}
	delete(s.damaged, ecosystem)
	err = verify(ctx, Archive{ecosystem, s.part(ecosystem)})
	if damaged, ok := errors.AsType[*DamagedError](err); ok {
		s.damaged[ecosystem] = badArchive{v, damaged}
	}
	if err == nil {
		err = os.Rename(s.part(ecosystem), s.archive(ecosystem))
	}
	if err == nil {
		s.state.Fetched[ecosystem] = v
	}
	return err == nil, err
}

// A badArchive is a damaged archive of the server.
type badArchive struct {
	validators validators
	err        error
}

func (s *Source) archive(ecosystem string) string { return filepath.Join(s.Dir, ecosystem+".zip") }
func (s *Source) part(ecosystem string) string    { return s.archive(ecosystem) + ".part" }

// fetch requests an archive, and stores a new one as a part. The request is conditional if has is set.
func (s *Source) fetch(ctx context.Context, ecosystem string, known validators, has bool) (answer, validators, error) {
	ctx, cancel := context.WithTimeout(ctx, limits.ScanFetch)
	defer cancel()
	address, err := url.JoinPath(s.Location, ecosystem, "all.zip")
	if err != nil {
		return absent, validators{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return absent, validators{}, err
	}
	req.Header.Set("User-Agent", "slipway")
	if has {
		known.condition(req)
	}
	resp, err := s.Client.Do(req)
	if err != nil {
		return absent, validators{}, fmt.Errorf("fetching the archive of %s: %w", ecosystem, err)
	}
	defer func() { _ = resp.Body.Close() }() // read only
	switch resp.StatusCode {
	case http.StatusOK:
		return fetched, validatorsOf(resp), s.save(ecosystem, resp.Body)
	case http.StatusNotModified:
		return unchanged, known, nil
	case http.StatusNotFound, http.StatusGone:
		return absent, validators{}, nil
	}
	return absent, validators{}, fmt.Errorf("fetching the archive of %s: status %d of %s", ecosystem, resp.StatusCode, req.URL.Host)
}

// save stores a response.
func (s *Source) save(ecosystem string, body io.Reader) error {
	f, err := os.OpenFile(s.part(ecosystem), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(body, limits.ScanArchive+1))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("fetching the archive of %s: %w", ecosystem, err)
	}
	if n > limits.ScanArchive {
		return fmt.Errorf("the archive of %s has more than %d bytes", ecosystem, int64(limits.ScanArchive))
	}
	return nil
}

// condition makes a request conditional.
func (v validators) condition(req *http.Request) {
	if v.ETag != "" {
		req.Header.Set("If-None-Match", v.ETag)
	}
	if v.LastModified != "" {
		req.Header.Set("If-Modified-Since", v.LastModified)
	}
}

func validatorsOf(resp *http.Response) validators {
	short := func(s string) string {
		if len(s) > limits.ScanName {
			return ""
		}
		return s
	}
	return validators{short(resp.Header.Get("Etag")), short(resp.Header.Get("Last-Modified"))}
}
