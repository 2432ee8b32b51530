package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"slipway.dev/services/mount/fuse"
	"slipway.dev/services/mount/kernel"
)

// probeMarker is the name under which the program starts itself to try what the namespaces allow.
const probeMarker = "slipway-probe"

// A Finding is what a machine can do.
type Finding struct {
	// What is the capability, e.g. "user namespaces".
	What string `json:"what"`
	OK   bool   `json:"ok"`
	// Required is set if `slipway run` does not work without it.
	Required bool `json:"required"`
	// Detail is why it is missing, or what it is.
	Detail string `json:"detail,omitempty"`
	// Advice is what an administrator can do, and Instead is what is used without it.
	Advice  string `json:"advice,omitempty"`
	Instead string `json:"instead,omitempty"`
}

// What is used without a capability.
const (
	insteadOfFUSE       = "whole images are unpacked into the cache (`slipway run --base`, `slipway singularity`)"
	insteadOfNamespaces = "the administrator mounts environments for all users in the prolog of the batch system (`slipway mount`), or use a Singularity image (`slipway conda --sif`)"
	insteadOfClones     = "each command has a mount of its own, which starts slower and shares no memory"
)

// A trial is the result of the process that tries the namespaces: an error for each capability; "" for none.
type trial struct{ Mounts, FUSE, Clone string }

// Check tries everything that `slipway run` uses on this machine.
func Check() []Finding {
	all := []Finding{kernelVersion(), device()}
	t, err := try()
	all = append(all, namespaces(err))
	if err == nil {
		all = append(all, tried("mounts in the namespace", t.Mounts), tried("FUSE in the namespace", t.FUSE), clones(t.Clone))
	}
	if f, ok := restricted(err == nil && t.Mounts == ""); ok && needsUser() {
		all = append(all, f)
	}
	return append(all, kernelMounts(), fusermount())
}

// tried returns the finding of a trial in the namespaces, which failed with this text; "" if it did not. The device has a finding of
// its own.
func tried(what, failure string) Finding {
	f := Finding{What: what, OK: failure == "", Required: true, Detail: failure}
	if !f.OK {
		f.Advice, f.Instead = restrictions(), insteadOfNamespaces
	}
	return f
}

func clones(failure string) Finding {
	f := Finding{What: "shared mounts", OK: failure == "", Detail: failure}
	if !f.OK {
		f.Advice, f.Instead = "install Linux 5.2 or later, which clones mounts", insteadOfClones
	}
	return f
}

// apparmorSwitch is the setting of kernels, as of Ubuntu 24.04, with which AppArmor denies capabilities in user namespaces to programs without a profile.
const apparmorSwitch = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"

// restricted returns a finding about AppArmor if it restricts user namespaces on this machine. Mounts work if a profile allows them.
func restricted(works bool) (Finding, bool) {
	b, err := os.ReadFile(apparmorSwitch)
	if err != nil || strings.TrimSpace(string(b)) != "1" {
		return Finding{}, false
	}
	f := Finding{What: "AppArmor", OK: works, Required: true, Detail: "it restricts user namespaces, and a profile allows them for this program"}
	if !works {
		f.Detail, f.Advice, f.Instead = "it restricts user namespaces for programs without a profile", apparmorAdvice(), insteadOfNamespaces
	}
	return f, true
}

// apparmorAdvice names the profile of our packages, which is for the program that they install.
func apparmorAdvice() string {
	const profile = "/etc/apparmor.d/slipway"
	own, err := os.Executable()
	if err != nil {
		own = "the program"
	}
	switch _, err := os.Stat(profile); {
	case err != nil:
		return "install the deb or rpm package of slipway, which has the AppArmor profile " + profile + " for /usr/bin/slipway, or set `sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
	case own != "/usr/bin/slipway":
		return "run /usr/bin/slipway, for which " + profile + " is, or add a profile for " + own
	}
	return "load the profile: `apparmor_parser --replace " + profile + "`"
}

func kernelVersion() Finding {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return Finding{What: "kernel", Required: true, Detail: err.Error()}
	}
	release := unix.ByteSliceToString(name.Release[:])
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil || major < 4 || major == 4 && minor < 18 {
		return Finding{What: "kernel", Required: true, Detail: release, Advice: "install Linux 4.18 or later, for FUSE in user namespaces", Instead: insteadOfNamespaces}
	}
	return Finding{What: "kernel", OK: true, Required: true, Detail: release}
}

func device() Finding {
	f := Finding{What: "/dev/fuse", Required: true}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	switch {
	case err == nil:
		_ = unix.Close(fd)
		f.OK = true
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV):
		f.Detail, f.Advice = err.Error(), "load the module fuse (`modprobe fuse`); in a container, start it with --device /dev/fuse"
		f.Instead = insteadOfFUSE
	default:
		f.Detail, f.Advice = err.Error(), "allow all users to use it, as distributions do: `chmod 0666 /dev/fuse`"
		f.Instead = insteadOfFUSE
	}
	return f
}

func namespaces(err error) Finding {
	what := "user namespaces"
	if !needsUser() {
		what = "mount namespaces"
	}
	if err == nil {
		return Finding{What: what, OK: true, Required: true}
	}
	return Finding{What: what, Required: true, Detail: err.Error(), Advice: restrictions(), Instead: insteadOfNamespaces}
}

// restrictions describes what on this machine restricts user namespaces.
func restrictions() string {
	for _, one := range []struct{ file, value, advice string }{
		{"/proc/sys/user/max_user_namespaces", "0", "allow user namespaces: `sysctl user.max_user_namespaces=15000`"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "allow user namespaces: `sysctl kernel.unprivileged_userns_clone=1`"},
		{apparmorSwitch, "1", apparmorAdvice()},
	} {
		if b, err := os.ReadFile(one.file); err == nil && strings.TrimSpace(string(b)) == one.value {
			return one.advice
		}
	}
	return "in a container, let its engine allow mounts, e.g. with --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
}

func kernelMounts() Finding {
	f := Finding{What: "EROFS of the kernel"}
	if os.Getuid() == 0 {
		err := kernel.Available()
		f.OK = err == nil
		if err != nil {
			f.Detail, f.Advice, f.Instead = err.Error(), "install Linux 6.12 or later with EROFS, which mounts files without a process", "FUSE is used"
		}
		return f
	}
	b, err := os.ReadFile("/proc/filesystems")
	f.OK = err == nil && strings.Contains(string(b), "\terofs\n")
	f.Detail = "only root may use it"
	if !f.OK {
		f.Detail, f.Advice, f.Instead = "the kernel has not loaded it, and only root may use it", "load the module erofs (Linux 6.12 or later) for mounts in a prolog", "FUSE is used"
	}
	return f
}

func fusermount() Finding {
	f := Finding{What: "fusermount3"}
	path, err := exec.LookPath("fusermount3")
	if err != nil {
		f.Detail, f.Advice = "not found", "install the package fuse3; only `slipway mount` of a user needs it"
		return f
	}
	info, err := os.Stat(path)
	f.OK, f.Detail = err == nil && info.Mode()&fs.ModeSetuid != 0, path
	if !f.OK {
		f.Advice = "make it a setuid program, as distributions do; only `slipway mount` of a user needs it"
	}
	return f
}

// try starts this program in new namespaces, where it tries to mount.
func try() (trial, error) {
	cmd := self(needsUser())
	cmd.Args = []string{probeMarker}
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &messages
	if err := cmd.Run(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); ok {
			return trial{}, fmt.Errorf("trying the namespaces: %w: %s", err, messages.String())
		}
		return trial{}, StartError(err)
	}
	var t trial
	if err := json.Unmarshal(out.Bytes(), &t); err != nil {
		return t, fmt.Errorf("trying the namespaces: %w", err)
	}
	return t, nil
}

// probe tries to mount, in the namespaces.
func probe() error {
	var t trial
	t.Mounts = text(tryMounts())
	if t.Mounts == "" {
		t.FUSE, t.Clone = text(tryFUSE()), text(tryClone())
	}
	return json.NewEncoder(os.Stdout).Encode(t)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// probeFolder is a folder that all systems have.
const probeFolder = "/proc"

func tryMounts() error {
	if err := separate(); err != nil {
		return err
	}
	return mountTmpfs(probeFolder)
}

func tryFUSE() error {
	folder := probeFolder + "/fuse"
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	fd, err := fuse.Mount(folder, os.Getuid(), os.Getgid(), false)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func tryClone() error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, probeFolder, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("open_tree: %w", err)
	}
	return unix.Close(fd)
}
