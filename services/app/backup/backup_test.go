package backup_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"slipway.dev/services/app"
	"slipway.dev/services/app/backup"
	"slipway.dev/services/internal/config"
)

// A site is a data_dir with a database, keys and an image store, and the folder of its backup.
type site struct {
	t   *testing.T
	cfg config.Config
	dir string
}

func newSite(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{t: t, cfg: config.Config{DataDir: filepath.Join(dir, "data")}, dir: filepath.Join(dir, "backup")}
	if err := app.Migrate(t.Context(), s.cfg); err != nil {
		t.Fatal(err)
	}
	s.write("master-key", "key")
	s.write("admin-token", "token")
	s.repository("builds", "one", "two")
	return s
}

// write writes a file in data_dir.
func (s *site) write(name, content string) {
	s.t.Helper()
	path := filepath.Join(s.cfg.DataDir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
		s.t.Fatal(err)
	}
}

// repository adds a repository with blobs to the image store.
func (s *site) repository(name string, blobs ...string) {
	s.t.Helper()
	s.write("images/"+name+"/index.json", "{}")
	s.write("images/"+name+"/oci-layout", "{}")
	for _, b := range blobs {
		s.write(blob(name, b), b)
	}
}

// blob returns the path of a blob below data_dir, and below a backup.
func blob(repository, content string) string {
	sum := sha256.Sum256([]byte(content))
	return "images/" + repository + "/blobs/sha256/" + hex.EncodeToString(sum[:])
}

func (s *site) create(change ...func(*backup.Options)) (string, error) {
	var progress strings.Builder
	o := backup.Options{Config: s.cfg, Dir: s.dir, Version: "1.2.3", Progress: &progress}
	for _, c := range change {
		c(&o)
	}
	err := backup.Create(s.t.Context(), o)
	return progress.String(), err
}

// restore restores the backup to another folder, which it returns.
func (s *site) restore() (dir, progress string, err error) {
	var text strings.Builder
	dir = filepath.Join(s.t.TempDir(), "data")
	err = backup.Restore(s.t.Context(), backup.Options{Config: config.Config{DataDir: dir}, Dir: s.dir, Progress: &text})
	return dir, text.String(), err
}

// has reports whether a file exists in a folder.
func has(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name)))
	return !errors.Is(err, fs.ErrNotExist)
}

// TestRestoredFiles checks what a backup contains and restores, and who may read it.
func TestRestoredFiles(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("layers/cache", "not part of a backup")
	if progress, err := s.create(); err != nil || !strings.Contains(progress, "contains the master key") || !strings.Contains(progress, "2 blobs") {
		t.Fatalf("%v: %s", err, progress)
	}
	for _, name := range []string{"", "slipway.db", "master-key"} {
		info, err := os.Stat(filepath.Join(s.dir, name))
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("others can read %q of the backup: %v, %v", name, info, err)
		}
	}
	to, progress, err := s.restore()
	if err != nil {
		t.Fatalf("%v: %s", err, progress)
	}
	for _, name := range []string{"slipway.db", "master-key", "admin-token", "images/builds/index.json", blob("builds", "one"), blob("builds", "two")} {
		if !has(to, name) {
			t.Errorf("%s was not restored", name)
		}
	}
	if has(to, "layers") || has(to, "backup.json") {
		t.Error("more was restored")
	}
	if _, err := s.create(func(o *backup.Options) { o.WithoutMasterKey = true }); err != nil || has(s.dir, "master-key") {
		t.Errorf("a backup without the master key: %v", err)
	}
	if to, progress, err := s.restore(); err != nil || has(to, "master-key") || !strings.Contains(progress, "no master key: put the server's at "+filepath.Join(to, "master-key")) {
		t.Errorf("restored without the master key: %v %s", err, progress)
	}
}

// TestBackupFollowsTheStore checks that a further backup deletes what the store has deleted.
func TestBackupFollowsTheStore(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.repository("team/builds", "three")
	if _, err := s.create(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.RemoveAll(filepath.Join(s.cfg.DataDir, "images/team")), os.Remove(filepath.Join(s.cfg.DataDir, blob("builds", "one")))); err != nil {
		t.Fatal(err)
	}
	s.write(blob("builds", "four"), "four")
	s.write("images/builds/blobs/sha256/.upload", "unfinished")
	if progress, err := s.create(); err != nil || !strings.Contains(progress, "has 2 blobs") || !strings.Contains(progress, "copied 1 of them") {
		t.Errorf("%v: %s", err, progress)
	}
	for name, want := range map[string]bool{
		blob("builds", "one"): false, blob("builds", "two"): true, blob("builds", "four"): true, "images/team/builds": false, "images/builds/blobs/sha256/.upload": false,
	} {
		if has(s.dir, name) != want {
			t.Errorf("%s is in the backup: %t, want %t", name, !want, want)
		}
	}
	if _, _, err := s.restore(); err != nil {
		t.Error(err)
	}
}

// TestNoBackup checks what cannot be backed up, and that no backup seems complete afterwards.
func TestNoBackup(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		breaks func(*site)
		want   string
	}{
		"a PostgreSQL database": {func(s *site) { s.cfg.DatabaseURL = "postgres://u:secret@db/slipway" }, "pg_dump"},
		"no database":           {func(s *site) { s.cfg.DataDir += "2" }, "there is no database at"},
		"a moved database": {func(s *site) {
			if err := app.MarkMoved(s.cfg.DataDir); err != nil {
				s.t.Fatal(err)
			}
		}, "was copied to another database"},
		"a damaged blob": {func(s *site) { s.write(blob("builds", "one"), "onf") }, "the image store is damaged"},
		"another backup": {func(s *site) {
			f, err := os.OpenFile(filepath.Join(s.dir, ".lock"), os.O_RDWR, 0)
			if err == nil {
				err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
			}
			if err != nil {
				s.t.Fatal(err)
			}
			s.t.Cleanup(func() { _ = f.Close() })
		}, "another backup to"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			if err := errors.Join(os.MkdirAll(s.dir, 0o700), os.WriteFile(filepath.Join(s.dir, ".lock"), nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			c.breaks(s)
			if progress, err := s.create(); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v: %s", err, progress)
			}
			if has(s.dir, "backup.json") {
				t.Error("the folder has a complete backup")
			}
		})
	}
}

// TestDamagedBackup checks that a changed backup is rejected before the server could use it.
func TestDamagedBackup(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(summary map[string]any, s *site)
		want   string
	}{
		"another format":       {func(sum map[string]any, _ *site) { sum["format"] = 2 }, "has format 2, but this program only reads format 1; restore it with slipwayd 1.2.3"},
		"a path outside":       {func(sum map[string]any, _ *site) { files(sum)["../escaped"] = files(sum)["admin-token"] }, `names the file "../escaped"`},
		"an absolute path":     {func(sum map[string]any, _ *site) { files(sum)["/tmp/escaped"] = files(sum)["admin-token"] }, `names the file "/tmp/escaped"`},
		"a file that is lost":  {func(_ map[string]any, s *site) { s.remove("admin-token") }, "no such file"},
		"a blob that is lost":  {func(_ map[string]any, s *site) { s.remove(blob("builds", "one")) }, "it has 1 blobs, but backup.json lists 2"},
		"a changed master key": {func(_ map[string]any, s *site) { s.change("master-key") }, "the digest of"},
		"a changed database":   {func(_ map[string]any, s *site) { s.change("slipway.db") }, "the digest of"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			if _, err := s.create(); err != nil {
				t.Fatal(err)
			}
			var sum map[string]any
			raw, err := os.ReadFile(filepath.Join(s.dir, "backup.json"))
			if err == nil {
				err = json.Unmarshal(raw, &sum)
			}
			if err != nil {
				t.Fatal(err)
			}
			c.change(sum, s)
			if raw, err = json.Marshal(sum); err == nil {
				err = os.WriteFile(filepath.Join(s.dir, "backup.json"), raw, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			to, progress, err := s.restore()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v: %s", err, progress)
			}
			if has(to, "slipway.db") || has(filepath.Dir(to), "escaped") || has("/tmp", "escaped") {
				t.Error("the backup was restored")
			}
		})
	}
}

// files returns the files of a summary.
func files(sum map[string]any) map[string]any {
	out, _ := sum["files"].(map[string]any)
	return out
}

// remove removes a file of the backup.
func (s *site) remove(name string) {
	s.t.Helper()
	if err := os.Remove(filepath.Join(s.dir, filepath.FromSlash(name))); err != nil {
		s.t.Fatal(err)
	}
}

// change changes one byte of a file of the backup.
func (s *site) change(name string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	raw, err := os.ReadFile(path)
	if err == nil {
		raw[len(raw)-1] ^= 1
		err = os.WriteFile(path, raw, 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}
