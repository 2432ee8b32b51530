package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/testkit/condadata"
)

// TestLazySnapshotters starts containers of images whose layers are fetched when they are read, with genuine
// containerd and the daemons of soci-snapshotter and stargz-snapshotter.
func TestLazySnapshotters(t *testing.T) {
	t.Parallel()
	programs := filepath.Join(os.Getenv("SLIPWAY_TEST_CLIENTS"), "bin")
	if _, err := os.Stat(filepath.Join(programs, "containerd")); err != nil || os.Getuid() != 0 {
		t.Skip("NOT TESTED with snapshotters: it needs root, and SLIPWAY_TEST_CLIENTS=DIR, where services/tools/clients.sh DIR has built containerd")
	}
	up := testkit.NewRegistry(t, testkit.Open)
	channel := madeChannel(t, greet(t, "amd64"))
	base := up.Push(t, "base/large:1", largeBase(t))
	eachCopyShape(t, []string{up.Host}, unraced(bare(channel.URL)), func(t *testing.T, p *program) {
		soci := environment(base, "greet")
		soci["soci"] = true
		for daemon, body := range map[string]map[string]any{"soci-snapshotter-grpc": soci, "containerd-stargz-grpc": compressed(environment(base, "greet"), "estargz")} {
			if _, err := os.Stat(filepath.Join(programs, daemon)); err != nil {
				t.Errorf("NOT TESTED with %s: services/tools/clients.sh builds it: %v", daemon, err)
				continue
			}
			answer := p.order(body)
			if s := p.finished(t, answer); s["succeeded"] != true {
				t.Fatalf("%s: the build ended as %v:\n%s", daemon, s, p.logOf(answer))
			}
			file, content := "base/large", condadata.Noise(t, 12) // the layer with a zTOC
			if daemon == "containerd-stargz-grpc" {
				file, content = "opt/conda/share/greeting", ""
			}
			runLazily(t, programs, daemon, text(answer, "targetImage"), file, content)
		}
	})
}

// runLazily runs an image with a snapshotter that mounts layers before they are there. One of these layers
// must have a file with a content, or with any content if that is "".
func runLazily(t *testing.T, programs, daemon, image, file, content string) {
	t.Helper()
	dir := shortFolder(t)
	socket, root := dir+"/s", dir+"/root"
	c := newContainerd(t, programs, fmt.Sprintf(`[proxy_plugins.lazy]
  type = "snapshot"
  address = %q
  [proxy_plugins.lazy.exports]
    root = %q
    enable_remote_snapshot_annotations = "true"
[[plugins."io.containerd.transfer.v1.local".unpack_config]]
  platform = "linux/amd64"
  snapshotter = "lazy"
`, socket, root))
	config := ""
	if daemon == "soci-snapshotter-grpc" { // it fetches layers without a zTOC with containerd
		config = fmt.Sprintf("[content_store]\n  containerd_address = %q\n", c.socket)
	}
	if err := os.WriteFile(dir+"/config.toml", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	startProgram(t, os.Environ(), filepath.Join(programs, daemon), "--address", socket, "--root", root, "--config", dir+"/config.toml")
	testkit.Until(t, daemon+" listens", func() error {
		_, err := os.Stat(socket)
		return err
	})
	c.ctr(t, "image", "pull", "--plain-http", "--snapshotter", "lazy", image)
	mounts := mountsBelow(root, "fuse")
	t.Logf("%s mounts %d layers", daemon, len(mounts))
	isThere := slices.ContainsFunc(mounts, func(at string) bool {
		got, err := os.ReadFile(filepath.Join(at, file))
		return err == nil && len(got) > 0 && (content == "" || string(got) == content)
	})
	if !isThere {
		t.Errorf("%s: no layer of %s that is mounted has %s", daemon, image, file)
	}
	c.greet(t, image, "--snapshotter", "lazy")
}
