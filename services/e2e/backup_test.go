package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestBackup creates a backup of a server under load, and restores it in another place. Users,
// tokens, credentials and image names must work there, without new builds.
func TestBackup(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	channel := madeChannel(t, smallPackages(3)...)
	base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
	s := common(t, []string{up.Host}, withProvider(t, bare(channel.URL)))
	s["limit_platform"], s["limit_pulls_anonymous"] = "0", "0"
	p := oneProcess(t, s)
	was := p.populate(t, base)
	dir := filepath.Join(t.TempDir(), "backup")

	var pulls sync.WaitGroup
	stop := make(chan struct{})
	pulls.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
				p.manifestDigest(t, was.answers[n%len(was.answers)])
			}
		}
	})
	env := p.procs[0].env
	out, err := env.run("backup", dir)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Log(out)
	if out, err := env.run("backup", dir); err != nil || !strings.Contains(out, "copied 0 of them") {
		t.Errorf("the second backup to the same folder: %v %s", err, out)
	}
	close(stop)
	pulls.Wait()
	before := p.lists(t, was)
	if err := p.procs[0].stop(); err != nil {
		t.Fatal(err)
	}

	if out, err := env.run("restore", dir); err == nil || !strings.Contains(out, "is not empty") {
		t.Errorf("restoring over existing data: %v %s", err, out)
	}
	elsewhere := maps.Clone(env)
	elsewhere["data_dir"] = filepath.Join(t.TempDir(), "data")
	blobs, err := filepath.Glob(filepath.Join(dir, "images", "builds", "blobs", "sha256", "*"))
	if err != nil || len(blobs) < 5 {
		t.Fatalf("the backup has %d blobs, %v", len(blobs), err)
	}
	whole, err := os.ReadFile(blobs[1])
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range [][]byte{whole[:len(whole)-1], append(whole[1:len(whole):len(whole)], 'x')} {
		if err := os.WriteFile(blobs[1], content, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := elsewhere.run("restore", dir); err == nil || !strings.Contains(out, "damaged") {
			t.Errorf("with a damaged blob: %v %s", err, out)
		}
	}
	if err := os.WriteFile(blobs[1], whole, 0o600); err != nil {
		t.Fatal(err)
	}
	// Files that root restores belong to the owner of the folder.
	const nobody = 65534
	if os.Getuid() == 0 {
		if err := os.Chown(elsewhere["data_dir"], nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := elsewhere.run("restore", dir); err != nil { // continues after the interruption
		t.Fatalf("%v: %s", err, out)
	}
	info, err := os.Stat(filepath.Join(elsewhere["data_dir"], "slipway.db"))
	if err != nil {
		t.Fatal(err)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; os.Getuid() == 0 && owner != nobody {
		t.Errorf("the restored database belongs to %d", owner)
	}
	p.procs[0].env = elsewhere
	p.procs[0].start()
	if after := p.lists(t, was); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	p.serves(t, was)

	// An interrupted backup must be rejected.
	if err := os.Remove(filepath.Join(dir, "backup.json")); err != nil {
		t.Fatal(err)
	}
	if out, err := elsewhere.run("restore", dir); err == nil || !strings.Contains(out, "not a complete backup") {
		t.Errorf("an incomplete backup: %v %s", err, out)
	}
}
