package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"slipway.dev/services/builder/daemon"
)

// data is data_dir, and the room on its disk.
func (d *doctor) data(context.Context) []Finding {
	dir, err := filepath.Abs(d.Config.DataDir)
	if err != nil {
		return one("data", "", err, Fail, "set data_dir")
	}
	at := standing(dir)
	if info, err := os.Stat(at); err == nil && !info.IsDir() {
		return one("data", "", fmt.Errorf("%s is no folder", at), Fail, "remove it, or set another data_dir")
	}
	if err := unix.Access(at, unix.W_OK|unix.X_OK); err != nil {
		return one("data", "", fmt.Errorf("this user cannot write to %s: %w", at, err), Fail, "give it to the user that runs slipwayd (chown), or set another data_dir")
	}
	return d.disk(at, dir)
}

// standing is a folder, or the next one above it that is there: what is not is made in it.
func standing(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err == nil && !info.IsDir() || !errors.Is(err, fs.ErrNotExist) || at == "/" {
			return at
		}
	}
}

// little is the room below which a disk soon is full.
const little = 5 << 30

func (d *doctor) disk(at, dir string) []Finding {
	wants, keys := int64(d.Config.LayerCache)+int64(d.Config.StoreSize), "layer_cache and store_size"
	if d.buildsHere() {
		wants, keys = wants+int64(d.Config.BuildDisk), "build_disk, "+keys
	}
	blobs, more := d.blobFolder()
	if blobs != "" && sameDisk(at, standing(blobs)) {
		wants, keys = wants+more, "blob_cache_size, "+keys
	}
	return room("disk", at, dir, wants, "free space, put data_dir on a larger disk, or lower "+keys+", whose sum it may fill")
}

// room says whether a disk has so many bytes left.
func room(check, at, dir string, wants int64, do string) []Finding {
	var s unix.Statfs_t
	if err := unix.Statfs(at, &s); err != nil {
		return one(check, "", err, Warn, "look at the disk of "+dir)
	}
	free := int64(s.Bavail) * s.Bsize
	text := fmt.Sprintf("%s has %d GiB left", dir, free>>30)
	switch {
	case free < little:
		return []Finding{{Check: check, State: Fail, Text: text, Do: do}}
	case free < wants:
		return []Finding{{Check: check, State: Warn, Text: fmt.Sprintf("%s; builds and caches may fill %d GiB", text, wants>>30), Do: do}}
	}
	return []Finding{{Check: check, State: OK, Text: text}}
}

func sameDisk(a, b string) bool {
	var x, y unix.Stat_t
	return unix.Stat(a, &x) == nil && unix.Stat(b, &y) == nil && x.Dev == y.Dev
}

// buildsHere says whether builds run on this machine, by the daemon of the builder
// role.
func (d *doctor) buildsHere() bool { return len(d.Config.BuildkitAddr) == 0 }

// mayBuild says whether the build daemon can be run by who we are.
func mayBuild() bool { return runtime.GOOS == "linux" && os.Geteuid() == 0 }

// builds are what runs their steps: runc, its version, and one step that does
// nothing, in namespaces and a control group.
func (d *doctor) builds(ctx context.Context) []Finding {
	if !d.buildsHere() {
		return one("runc", "BuildKit daemons elsewhere build: "+strings.Join(d.Config.BuildkitAddr, ", "), nil, OK, "")
	}
	if !mayBuild() {
		return one("runc", "", errors.New("Dockerfiles are not built here: only root of a Linux machine can run the build daemon"), Warn,
			"run slipwayd as root (sudo), or set buildkit_addr; everything but Dockerfiles works without, images of Conda packages too")
	}
	path, version, err := daemon.Look(ctx, d.Config.RuncPath)
	return one("runc", fmt.Sprintf("%s, version %s, runs containers here", path, version), err, Fail, "")
}

// groups are the control groups that keep builds within their limits.
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
