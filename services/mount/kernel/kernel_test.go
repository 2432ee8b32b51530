package kernel_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/services/mount/erofs"
	"slipway.dev/services/mount/kernel"
	"slipway.dev/services/mount/mounttest"
)

func TestOnlyVerifiedIndexesAreMounted(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: only root can have files that only root can change")
	}
	index := mounttest.Index(t, mounttest.Pack(t, mounttest.Files{"bin/tool": strings.Repeat("x", 10_000), "lib/link": "->../bin/tool"}))
	x, err := erofs.Open(index)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	write := func(name string, data []byte, mode os.FileMode) string {
		path := filepath.Join(folder, name)
		if err := errors.Join(os.WriteFile(path, data, 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	device := write("device", make([]byte, x.Devices()[0].Size), 0o644)
	short := write("short", make([]byte, x.Devices()[0].Size-1), 0o644)
	good := write("good", index, 0o644)
	writable := write("writable", index, 0o666)
	link := filepath.Join(folder, "link")
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	malformed := 0
	for i := 1024; i < len(index); i += 8 { // from the superblock on: each change that Open does not notice
		broken := append([]byte(nil), index...)
		broken[i] ^= 0xff
		y, err := erofs.Open(broken)
		if err != nil || y.Check() == nil {
			continue
		}
		malformed++
		if _, err := kernel.Mount(write("broken", broken, 0o644), []string{device}); err == nil || !strings.Contains(err.Error(), "the index") {
			t.Errorf("byte %d: %v", i, err)
		}
	}
	if malformed == 0 {
		t.Error("no malformed index was tried")
	}
	for name, one := range map[string]struct {
		index   string
		devices []string
		want    string
	}{
		"writable index":  {writable, []string{device}, "only root can change"},
		"linked index":    {link, []string{device}, "too many levels"},
		"short package":   {good, []string{short}, "bytes"},
		"missing package": {good, nil, "packages"},
	} {
		if _, err := kernel.Mount(one.index, one.devices); err == nil || !strings.Contains(err.Error(), one.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if kernel.Available() != nil {
		t.Skip("NOT TESTED: mounting the verified index: this kernel has no EROFS")
	}
	tree, err := kernel.Mount(good, []string{device})
	if err != nil {
		t.Fatal(err)
	}
	_ = tree.Close()
}
