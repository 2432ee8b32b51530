package figure

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// machine describes the machine of a run.
type machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	// BusyBefore and BusyAfter are the share of the processors, 0 to 1, that other
	// processes used right before and after the run. Figures of a busy machine are upper
	// bounds; only ratios are meaningful.
	BusyBefore float64 `json:"busyBefore"`
	BusyAfter  float64 `json:"busyAfter"`
}

func thisMachine() machine {
	read := func(path string) string {
		raw, _ := os.ReadFile(path) // unknown if it cannot be read
		return strings.TrimSpace(string(raw))
	}
	m := machine{Cores: runtime.NumCPU(), Kernel: read("/proc/sys/kernel/osrelease"), Go: runtime.Version()}
	if _, rest, ok := strings.Cut(read("/proc/cpuinfo"), "model name"); ok {
		line, _, _ := strings.Cut(rest, "\n")
		m.CPU = strings.TrimLeft(line, "\t :")
	}
	return m
}

// Busy measures for two seconds which share of the processors is in use, 0 to 1. It returns 0
// if /proc/stat cannot be read.
func Busy() float64 {
	idle, all := ticks()
	time.Sleep(2 * time.Second)
	idleAfter, allAfter := ticks()
	if allAfter == all {
		return 0
	}
	return round(1 - (idleAfter-idle)/(allAfter-all))
}

// ticks reads the idle time and the total time of all processors from /proc/stat.
func ticks() (idle, all float64) {
	raw, _ := os.ReadFile("/proc/stat")
	var t [8]float64 // user nice system idle iowait irq softirq steal
	_, _ = fmt.Sscanf(string(raw), "cpu %f %f %f %f %f %f %f %f", &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7])
	for _, v := range t {
		all += v
	}
	return t[3] + t[4], all
}
