package daemon

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"slipway.dev/services/builder/daemon/step"
)

// inUserNamespace reports whether this process runs in a user namespace, where root is not
// the machine's root.
func inUserNamespace() bool {
	raw, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && strings.Join(strings.Fields(string(raw)), " ") != "0 0 4294967295"
}

// canMountProc reports whether steps can mount their own /proc. In a user namespace they
// cannot if other mounts cover a part of the existing /proc, as in the containers of most
// engines.
func canMountProc(ctx context.Context, wrapper string) bool {
	cmd := exec.CommandContext(ctx, wrapper, step.MountProc)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	return cmd.Run() == nil
}
