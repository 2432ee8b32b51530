package vulns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/retry"
)

// Options are the options of a Source.
type Options struct {
	// Location is a folder, or the base URL of a web server, with OSV data as at
	// https://osv-vulnerabilities.storage.googleapis.com: <ecosystem>/all.zip; in a folder also
	// <ecosystem>.zip. If it is empty, there is no data.
	Location string
	// Dir is the folder that the source owns, for the database and fetched archives.
	Dir string
	// Refresh is how often a web server is read. A folder is read when it has changed.
	Refresh time.Duration
	// VEX lists files with OpenVEX documents that apply to all images.
	VEX []string
	// Client sends requests to the web server. Its transport enforces the egress rules.
	Client  *http.Client
	Metrics prometheus.Registerer
	Log     *slog.Logger
	Now     func() time.Time
}

// isURL reports whether the location is that of a web server.
func (o *Options) isURL() bool {
	return !filepath.IsAbs(o.Location)
}

// A Source provides the newest database. Create it with NewSource, and call Run. It is safe for concurrent use. A nil
// source has no data.
type Source struct {
	Options
	outcomes *prometheus.CounterVec

	mu      sync.Mutex
	current *lease
	vex     serverVEX
	// checked is when the location was last read without an error.
	checked time.Time

	// Only Run uses these.
	state state
	// next is when the location is read again. failure is the last error, and rejected the error of a
	// damaged archive with the fingerprint of its folder.
	next     time.Time
	failure  error
	rejected struct {
		fingerprint string
		err         error
	}
	// damaged are archives of the web server by ecosystem.
	damaged  map[string]badArchive
	vexFiles string
}

// A lease is a database with the number of its users, and one for being the current one.
type lease struct {
	*Database
	path  string
	users int
	// retired reports whether there is a newer database.
	retired bool
}

// NewSource returns a source with the database that an earlier one has left in Dir, if any. It returns an error if a
// document of VEX is not valid.
func NewSource(o Options) (*Source, error) {
	s := &Source{Options: o, damaged: map[string]badArchive{}}
	s.register()
	if err := s.readVEX(); err != nil || o.Location == "" {
		return s, err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the folder of scan_database: %w", err)
	}
	st := s.readState()
	if st.Location != o.Location || st.Version == "" {
		return s, s.clean("")
	}
	db, err := Open(s.file(st.File))
	if err != nil {
		o.Log.Warn("The database of vulnerabilities cannot be opened; it is created again", "err", err)
		return s, s.clean("")
	}
	s.state, s.current, s.checked = st, &lease{Database: db, path: s.file(st.File), users: 1}, st.Checked
	if o.isURL() {
		s.next = st.Checked.Add(o.Refresh)
	}
	return s, s.clean(st.File)
}

// Acquire returns the newest database, and a function that the caller must call when it no longer uses it. It
// returns fault.Unsupported if no location is configured, and fault.Unavailable if the data is not loaded yet.
func (s *Source) Acquire() (*Database, func(), error) {
	if !s.IsConfigured() {
		return nil, nil, fault.Unsupported.Newf("Images are not scanned here: this server has no data about vulnerabilities; its operator can set scan_database")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.current
	if l == nil {
		return nil, nil, fault.Unavailable.Newf("The data about vulnerabilities is not loaded yet; try again").After(limits.ScanWait)
	}
	l.users++
	return l.Database, sync.OnceFunc(func() { s.release(l) }), nil
}

// IsConfigured reports whether there is a location of data.
func (s *Source) IsConfigured() bool { return s != nil && s.Location != "" }

// release ends a use of a database. The last one of a retired database deletes it.
func (s *Source) release(l *lease) {
	s.mu.Lock()
	l.users--
	last, retired := l.users == 0, l.retired
	s.mu.Unlock()
	if !last {
		return
	}
	err := l.Close()
	if retired {
		err = errors.Join(err, os.Remove(l.path))
	}
	if err != nil {
		s.Log.Warn("A database of vulnerabilities could not be closed or removed", "err", err)
	}
}

// swap makes a database the current one; nil for none.
func (s *Source) swap(next *lease) {
	s.mu.Lock()
	old := s.current
	s.current = next
	if old != nil {
		old.retired = next != nil
	}
	s.mu.Unlock()
	if old != nil {
		s.release(old)
	}
}

// Run keeps the database and the OpenVEX documents up to date until ctx is done.
func (s *Source) Run(ctx context.Context) error {
	defer s.swap(nil)
	for {
		if err := s.readVEX(); err != nil {
			s.Log.WarnContext(ctx, "The documents of scan_vex could not be read; the previous ones are still used", "err", err)
		}
		if s.Location != "" && !s.Now().Before(s.next) {
			s.turn(ctx)
		}
		if !retry.Sleep(ctx, min(s.Refresh, limits.ScanPoll)) {
			return nil
		}
	}
}

// turn refreshes the database.
func (s *Source) turn(ctx context.Context) {
	changed, err := s.safely(ctx)
	now := s.Now()
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		if changed {
			s.outcomes.WithLabelValues("imported").Inc()
		}
		s.persist(ctx)
		s.outcomes.WithLabelValues("failed").Inc()
		if s.failure == nil || s.failure.Error() != err.Error() { // once, since it is repeated until the operator acts
			s.Log.WarnContext(ctx, "The data about vulnerabilities could not be read; the previous data is still used", "location", s.Location, "err", err)
		}
		s.failure, s.next = err, now.Add(min(s.Refresh, limits.ScanRetry))
		return
	case changed:
		s.outcomes.WithLabelValues("imported").Inc()
	default:
		s.outcomes.WithLabelValues("unchanged").Inc()
	}
	s.failure, s.next = nil, now.Add(s.Refresh)
	if !s.isURL() {
		s.next = now // the folder is compared each time
	}
	s.mu.Lock()
	s.checked = now
	s.mu.Unlock()
	s.state.Checked = now.UTC()
	s.persist(ctx)
}

// persist stores the state.
func (s *Source) persist(ctx context.Context) {
	if err := s.writeState(); err != nil {
		s.Log.WarnContext(ctx, "The state of scan_database could not be stored", "err", err)
	}
}

// safely refreshes the database. It converts a panic to an error.
func (s *Source) safely(ctx context.Context) (changed bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if s.isURL() {
		return s.refreshURL(ctx)
	}
	return s.refreshFolder(ctx)
}

// refreshFolder imports the archives of a folder if they have changed.
func (s *Source) refreshFolder(ctx context.Context) (changed bool, err error) {
	archives, fingerprint, err := inFolder(s.Location)
	switch {
	case err != nil:
		return false, err
	case fingerprint == s.state.Fingerprint && s.current != nil:
		s.rejected.fingerprint = ""
		return false, nil
	case fingerprint == s.rejected.fingerprint:
		return false, s.rejected.err
	}
	s.rejected.fingerprint = ""
	changed, err = s.load(ctx, archives, func() error {
		if _, after, err := inFolder(s.Location); err != nil || after != fingerprint {
			return errors.Join(err, errors.New("the archives were changed while they were read; put complete files in place by renaming them"))
		}
		return nil
	})
	if err == nil {
		s.state.Fingerprint = fingerprint
	}
	if _, damaged := errors.AsType[*DamagedError](err); damaged {
		s.rejected.fingerprint, s.rejected.err = fingerprint, err
	}
	return changed, err
}

// inFolder returns the archives of a folder, and a text that changes when they do.
func inFolder(dir string) ([]Archive, string, error) {
	var out []Archive
	var all strings.Builder
	for _, e := range Ecosystems() {
		for _, name := range []string{filepath.Join(e, "all.zip"), e + ".zip"} {
			at := filepath.Join(dir, name)
			info, err := os.Stat(at)
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, "", err
			}
			if !info.Mode().IsRegular() {
				return nil, "", fmt.Errorf("%s is not a file", at)
			}
			fmt.Fprintln(&all, name, info.Size(), info.ModTime().UnixNano())
			out = append(out, Archive{e, at})
			break
		}
	}
	if len(out) == 0 {
		return nil, "", fmt.Errorf("the folder has no archive: expected %s, or the same for %s", filepath.Join(debian, "all.zip"), strings.Join(Ecosystems()[1:], ", "))
	}
	return out, all.String(), nil
}

// load imports archives, and makes the result the current database if it differs and check returns no error.
func (s *Source) load(ctx context.Context, archives []Archive, check func() error) (changed bool, err error) {
	start := s.Now()
	path := filepath.Join(s.Dir, "new")
	summary, err := Import(ctx, path, archives)
	if err != nil {
		return false, err
	}
	db, err := Open(path)
	if err == nil {
		err = check()
	}
	if err != nil || s.current != nil && s.current.Version() == db.Version() {
		if db != nil {
			err = errors.Join(err, db.Close())
		}
		return false, errors.Join(err, os.Remove(path))
	}
	// A new name for each file: another call may still hold one with this version.
	file := fmt.Sprintf("%s-%d.db", db.Version()[:16], s.Now().UnixNano())
	if err = os.Rename(path, s.file(file)); err == nil {
		s.state.Location, s.state.Version, s.state.File = s.Location, db.Version(), file
		err = s.writeState() // before the old file is removed
	}
	if err != nil {
		return false, errors.Join(err, db.Close())
	}
	s.swap(&lease{Database: db, path: s.file(file), users: 1})
	s.Log.InfoContext(ctx, "The data about vulnerabilities was read", "location", s.Location, "version", db.Version()[:12], "records", summary.Records,
		"skipped", summary.Skipped, "problem", summary.Problem, "ms", s.Now().Sub(start).Milliseconds())
	return true, nil
}

// A state is what the source stores about its database.
type state struct {
	Location string `json:"location"`
	Version  string `json:"version"`
	// File is the name of its file.
	File    string    `json:"file"`
	Checked time.Time `json:"checked"`
	// Fingerprint is that of the folder.
	Fingerprint string `json:"fingerprint,omitempty"`
	// Fetched has the validators of the responses of the web server, by ecosystem.
	Fetched map[string]validators `json:"fetched,omitempty"`
	// Incomplete reports whether fetched archives were not imported yet.
	Incomplete bool `json:"incomplete,omitempty"`
}

func (s *Source) file(name string) string { return filepath.Join(s.Dir, name) }

// readState returns the stored state; the zero state before the first import.
func (s *Source) readState() state {
	var out state
	raw, err := os.ReadFile(filepath.Join(s.Dir, "state.json"))
	if err != nil || json.Unmarshal(raw, &out) != nil || filepath.Base(out.File) != out.File || !strings.HasSuffix(out.File, ".db") {
		return state{}
	}
	return out
}

// writeState replaces the stored state.
func (s *Source) writeState() error {
	raw, err := json.Marshal(s.state)
	if err != nil {
		return err
	}
	at := filepath.Join(s.Dir, "state.json")
	if err := os.WriteFile(at+".part", raw, 0o600); err != nil {
		return err
	}
	return os.Rename(at+".part", at)
}

// clean removes other databases, which a killed process may have left, and for a folder the archives of a web server.
// Without a name, the state is removed, too.
func (s *Source) clean(name string) error {
	found, err := filepath.Glob(filepath.Join(s.Dir, "*.db"))
	if err != nil {
		return err
	}
	found = append(found, filepath.Join(s.Dir, "new"), filepath.Join(s.Dir, "new.part"))
	if !s.isURL() || name == "" {
		for _, e := range Ecosystems() {
			found = append(found, s.archive(e), s.part(e))
		}
	}
	if name == "" {
		found = append(found, filepath.Join(s.Dir, "state.json"))
	}
	for _, at := range found {
		if name != "" && at == s.file(name) {
			continue
		}
		if err := os.Remove(at); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
