package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"slipway.dev/services/builder/daemon"
	"slipway.dev/services/internal/disk"
)

// data checks data_dir and the free space on its disk.
func (d *doctor) data(context.Context) []Finding {
	dir, err := filepath.Abs(d.Config.DataDir)
	if err != nil {
		return one("data", "", err, Fail, "set data_dir")
	}
	at := disk.Existing(dir)
	if info, err := os.Stat(at); err == nil && !info.IsDir() {
		return one("data", "", fmt.Errorf("%s is not a folder", at), Fail, "remove it, or set another data_dir")
	}
	if err := unix.Access(at, unix.W_OK|unix.X_OK); err != nil {
		return one("data", "", fmt.Errorf("this user cannot write to %s: %w", at, err), Fail, "give it to the user that runs slipwayd (chown), or set another data_dir")
	}
	return d.disk(at, dir)
}

// minFree is the free space in bytes below which a disk is reported as almost full.
const minFree = 5 << 30

func (d *doctor) disk(at, dir string) []Finding {
	needed, keys := int64(d.Config.LayerCache)+int64(d.Config.StoreSize), "layer_cache and store_size"
	if d.buildsHere() {
		needed, keys = needed+int64(d.Config.BuildDisk), "build_disk, "+keys
	}
	blobs, more := d.blobFolder()
	if blobs != "" && disk.Same(at, disk.Existing(blobs)) {
		needed, keys = needed+more, "blob_cache_size, "+keys
	}
	return d.freeSpace("disk", at, dir, needed, "free space, put data_dir on a larger disk, or lower "+keys+", whose sum it may fill")
}

// freeSpace checks that a disk has the needed number of free bytes.
func (d *doctor) freeSpace(check, at, dir string, needed int64, do string) []Finding {
	free, err := d.Free(at)
	if err != nil {
		return one(check, "", err, Warn, "look at the disk of "+dir)
	}
	text := fmt.Sprintf("%s has %d GiB left", dir, free>>30)
	switch {
	case free < minFree:
		return []Finding{{Check: check, State: Fail, Text: text, Do: do}}
	case free < needed:
		return []Finding{{Check: check, State: Warn, Text: fmt.Sprintf("%s; builds and caches may fill %d GiB", text, needed>>30), Do: do}}
	}
	return []Finding{{Check: check, State: OK, Text: text}}
}

// buildsHere reports whether the builder role's own daemon builds on this machine.
func (d *doctor) buildsHere() bool { return len(d.Config.BuildkitAddr) == 0 }

// mayBuild reports whether this user can run the build daemon.
func mayBuild() bool { return runtime.GOOS == "linux" && os.Geteuid() == 0 }

// builds checks what runs build steps: runc, its version, and an empty container with
// namespaces and a control group.
func (d *doctor) builds(ctx context.Context) []Finding {
	if !d.buildsHere() {
		return one("runc", "remote BuildKit daemons build: "+strings.Join(d.Config.BuildkitAddr, ", "), nil, OK, "")
	}
	if !mayBuild() {
		return one("runc", "", errors.New("Dockerfiles cannot be built here: only root on Linux can run the build daemon"), Warn,
			"run slipwayd as root (sudo), or set buildkit_addr; everything except Dockerfiles works without it, including images of Conda packages")
	}
	path, version, err := daemon.Probe(ctx, d.Config.RuncPath)
	return one("runc", fmt.Sprintf("%s, version %s, runs containers here", path, version), err, Fail, "")
}

// groups checks the control groups that enforce the limits of builds.
func (d *doctor) groups(context.Context) []Finding {
	const check = "control groups"
	if !d.buildsHere() || !mayBuild() {
		return nil
	}
	v2, err := os.ReadFile(filepath.Join(d.Groups, "cgroup.controllers"))
	have := func(controller string) bool {
		if err == nil {
			return strings.Contains(" "+strings.TrimSpace(string(v2))+" ", " "+controller+" ")
		}
		info, err := os.Stat(filepath.Join(d.Groups, controller))
		return err == nil && info.IsDir()
	}
	var missing []string
	for _, c := range []string{"memory", "pids", "cpu"} {
		if !have(c) {
			missing = append(missing, c)
		}
	}
	switch {
	case len(missing) == 3:
		return one(check, "", fmt.Errorf("no control groups are mounted at %s: builds cannot run", d.Groups), Fail, "mount -t cgroup2 none "+d.Groups)
	case len(missing) > 0:
		return one(check, "", fmt.Errorf("the controllers %s are missing: builds run without these limits", strings.Join(missing, ", ")), Warn,
			"enable them (kernel parameter cgroup_enable=memory; in a container, delegate them)")
	}
	return one(check, "memory, processes and processors of builds can be limited", nil, OK, "")
}
