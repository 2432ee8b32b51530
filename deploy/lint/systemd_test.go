package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
)

// exposed is the highest exposure that `systemd-analyze security` may compute for
// slipwayd.service, in tenths: 2.0 of 10.
const exposed = 20

// TestUnitExposure limits the exposure of slipwayd's unit, which listens on the network.
func TestUnitExposure(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("NOT CHECKED: systemd-analyze is missing, so the exposure of slipwayd.service is unknown; install the package systemd")
	}
	cmd := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=yes", "--no-pager",
		"--threshold="+strconv.Itoa(exposed), "../release/slipwayd.service")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the exposure of slipwayd.service is above %.1f: %v\n%s", float64(exposed)/10, err, out)
	}
}

// TestUnitMemory checks that each unit has a memory limit, and that their sum leaves memory to
// the machine.
func TestUnitMemory(t *testing.T) {
	t.Parallel()
	limit := regexp.MustCompile(`(?m)^MemoryMax=(\d+)%$`)
	sum := 0
	for _, unit := range []string{"slipwayd.service", "slipway-buildkitd.service"} {
		raw, err := os.ReadFile("../release/" + unit)
		if err != nil {
			t.Fatal(err)
		}
		found := limit.FindSubmatch(raw)
		if found == nil {
			t.Fatalf("%s has no MemoryMax in percent", unit)
		}
		n, err := strconv.Atoi(string(found[1]))
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	if sum > 95 {
		t.Errorf("together the units may take %d %% of the memory; leave at least 5 %%", sum)
	}
}
