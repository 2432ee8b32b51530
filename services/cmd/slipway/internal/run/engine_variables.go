package run

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/usage"
)

// bindVariables are the variables of Apptainer and Singularity with further binds.
func bindVariables() []string {
	return []string{"SINGULARITY_BINDPATH", "SINGULARITY_BIND", "APPTAINER_BINDPATH", "APPTAINER_BIND"}
}

// engineVariable returns the variable of Apptainer, or else of Singularity, for an option, and its value; "" for none.
func engineVariable(get func(string) string, name string) (variable, value string) {
	for _, prefix := range []string{"APPTAINER_", "SINGULARITY_"} {
		if v := strings.TrimSpace(get(prefix + name)); v != "" {
			return prefix + name, v
		}
	}
	return "", ""
}

// applyVariables sets the options of a command that variables of Apptainer and Singularity set, unless they are on the command line.
func applyVariables(cmd *cobra.Command, get func(string) string) error {
	for _, one := range []struct {
		names   []string
		options []string // the first one is set
	}{
		{[]string{"HOME"}, []string{"home"}},
		{[]string{"NO_HOME"}, []string{"no-home"}},
		{[]string{"CONTAIN"}, []string{"contain"}},
		{[]string{"CONTAINALL"}, []string{"containall"}},
		{[]string{"CLEANENV"}, []string{"cleanenv"}},
		{[]string{"PID", "UNSHARE_PID"}, []string{"pid"}},
		{[]string{"CWD", "TARGET_CWD", "PWD", "TARGET_PWD"}, []string{"cwd", "pwd"}},
		{[]string{"NOHTTPS"}, []string{"no-https"}},
	} {
		flag := cmd.Flags().Lookup(one.options[0])
		if flag == nil || slices.ContainsFunc(one.options, cmd.Flags().Changed) {
			continue
		}
		for _, name := range one.names {
			variable, value := engineVariable(get, name)
			if variable == "" {
				continue
			}
			if err := cmd.Flags().Set(flag.Name, value); err != nil {
				return usage.Errorf("the variable %s has the invalid value %q", variable, value)
			}
			break
		}
	}
	return nil
}

// refuseVariables returns an error for a variable of Apptainer and Singularity that would set an option that is not supported.
func refuseVariables(get func(string) string) error {
	switches := []string{
		"ALLOW_SETUID", "BOOT", "COMPAT", "FAKEROOT", "IPC", "KEEP_PRIVS", "NET", "NO_PRIVS", "NV", "NVCCLI", "ROCM", "UNSHARE_IPC", "UNSHARE_NET", "UNSHARE_UTS", "UTS", "VM", "WRITABLE",
		"WRITABLE_TMPFS",
	}
	texts := []string{
		"ADD_CAPS", "APP", "APPLY_CGROUPS", "APPNAME", "CONTAINLIBS", "CPU_SHARES", "CPUSET_CPUS", "CPUSET_MEMS", "DNS", "DROP_CAPS", "ENV_FILE", "FUSESPEC", "HOSTNAME", "MEMORY",
		"MOUNT", "NETWORK", "NETWORK_ARGS", "NO_MOUNT", "OVERLAY", "OVERLAYIMAGE", "PIDS_LIMIT", "SCRATCH", "SCRATCHDIR", "SECURITY", "WORKDIR",
	}
	for _, name := range append(switches, texts...) {
		variable, value := engineVariable(get, name)
		if off, err := strconv.ParseBool(value); variable == "" || slices.Contains(switches, name) && err == nil && !off {
			continue
		}
		hint := "unset it"
		if name == "NV" || name == "NVCCLI" || name == "ROCM" {
			hint = "unset it, and bind the libraries of the driver with --bind"
		}
		return fmt.Errorf("the variable %s sets an option that is not supported; %s", variable, hint)
	}
	return nil
}
