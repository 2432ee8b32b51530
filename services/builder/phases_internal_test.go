package builder

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// printed records the output that reached the log.
type printed struct {
	mu    sync.Mutex
	lines []string
}

func (p *printed) Print(phase, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, phase+"|"+text)
}

func TestPhases(t *testing.T) {
	t.Parallel()
	reg, out := prometheus.NewRegistry(), &printed{}
	p := newMetrics(reg).phases(t.Context(), "fake", out)
	p.Print("build", "step 1")
	p.Print("", "step 2")
	p.Print("push", "step 3")
	p.Print("build", "starting over")
	p.end()
	if d := cmp.Diff([]string{"build|step 1", "|step 2", "push|step 3", "build|starting over"}, out.lines); d != "" {
		t.Error(d)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, f := range families {
		if f.GetName() == "slipway_builder_phase_seconds" {
			for _, m := range f.GetMetric() {
				got[m.GetLabel()[1].GetValue()] = m.GetHistogram().GetSampleCount()
			}
		}
	}
	if d := cmp.Diff(map[string]uint64{preparePhase: 1, "build": 2, "push": 1}, got); d != "" {
		t.Error(d)
	}
}
