package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/app"
	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/sqldb"
)

// TestMayAppend compares the rights of a user with what is needed to append to a file and to
// create it.
func TestMayAppend(t *testing.T) {
	t.Parallel()
	self := account{name: "slipway", uid: uint32(os.Geteuid())}
	for name, c := range map[string]struct {
		parent, folder, file os.FileMode // 0: no file
		want                 string
	}{
		"a new file":                         {0o700, 0o700, 0, ""},
		"a file":                             {0o700, 0o500, 0o600, ""},
		"a folder that cannot be entered":    {0o700, 0o600, 0, "cannot write"},
		"a folder that cannot be written":    {0o700, 0o500, 0, "cannot write"},
		"a file that cannot be read":         {0o700, 0o700, 0o200, "cannot write"},
		"a file that cannot be written":      {0o700, 0o700, 0o400, "cannot write"},
		"a parent that cannot be entered":    {0o600, 0o700, 0, "denied|cannot write"},
		"a file in what cannot be entered":   {0o600, 0o700, 0o600, "denied|cannot write"},
		"a file in a folder not to enter it": {0o700, 0o600, 0o600, "denied|cannot write"},
	} {
		parent := filepath.Join(t.TempDir(), "parent")
		folder := filepath.Join(parent, "folder")
		path := filepath.Join(folder, "audit.jsonl")
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if c.file != 0 {
			if err := os.WriteFile(path, nil, c.file); err != nil {
				t.Fatal(err)
			}
		}
		for _, at := range []string{folder, parent} {
			t.Cleanup(func() { _ = os.Chmod(at, 0o700) })
		}
		_ = os.Chmod(folder, c.folder)
		_ = os.Chmod(parent, c.parent)
		err := self.mayAppend(path)
		isRight := err == nil && c.want == ""
		if c.want != "" && err != nil {
			for want := range strings.SplitSeq(c.want, "|") {
				isRight = isRight || strings.Contains(err.Error(), want)
			}
		}
		if !isRight {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/etc/hostname", link); err != nil {
		t.Fatal(err)
	}
	if err := self.mayAppend(link); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("a link: %v", err)
	}
}

// TestLostEvents checks that lost events are reported for a limited time.
func TestLostEvents(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	d := &doctor{Options: Options{Config: config.Config{DataDir: folder, AuditSink: filepath.Join(folder, "audit.jsonl")}}}
	d.defaults()
	if err := app.Migrate(t.Context(), d.Config); err != nil {
		t.Fatal(err)
	}
	db, err := sqldb.Open(t.Context(), app.DatabaseURL(d.Config))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	lost := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	if _, err := db.ExecContext(t.Context(), `INSERT INTO platform_audit_sink (id, sequence, holder, held_until, seen_at, written_at, lost, lost_at, problem, failing_since)
		VALUES (1, 0, '', 0, $1, $1, 7, $1, '', 0)`, sqldb.Micros(lost)); err != nil {
		t.Fatal(err)
	}
	for after, want := range map[time.Duration]State{time.Hour: Warn, 8 * 24 * time.Hour: OK} {
		d.Now = func() time.Time { return lost.Add(after) }
		if got := d.auditSink(t.Context()); len(got) != 1 || got[0].State != want {
			t.Errorf("%s later: %+v", after, got)
		}
	}
}
