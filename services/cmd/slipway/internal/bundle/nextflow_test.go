package bundle

import (
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
)

// TestNextflowSifs checks which Singularity image a process has: that of the image that it has now.
func TestNextflowSifs(t *testing.T) {
	t.Parallel()
	one, two := digest.FromString("1"), digest.FromString("2")
	image := func(process, name string, d digest.Digest) request {
		return request{Name: process, Process: true, Image: name, Digest: d}
	}
	sif := func(process, name string, of digest.Digest) request {
		return request{Name: process, Process: true, Image: name, Format: formatSif, Of: of}
	}
	c := &content{records: []record{
		{Requests: []request{
			image("SAME", "a", one), sif("SAME", "a.sif", one),
			image("CHANGED", "a", one), sif("CHANGED", "a.sif", one),
			image("BOTH", "a", one), sif("BOTH", "a.sif", one),
			image("LONE", "a", one), sif("LONE", "a.sif", one),
			sif("NOW", "lone.sif", ""),
			image("STALE", "a", one), sif("STALE", "lone.sif", ""),
		}},
		{Requests: []request{
			image("SAME", "a", one), image("CHANGED", "b", two),
			sif("BOTH", "b.sif", two), image("BOTH", "b", two),
			sif("LONE", "lone.sif", ""), image("NOW", "b", two),
		}},
	}}
	names := map[string]string{"a": "h/a:1", "a.sif": "h/a:1.sif", "b": "h/b:1", "b.sif": "h/b:1.sif", "lone.sif": "h/lone:1"}
	processes, _ := c.containers(names, "")
	for process, want := range map[string][2]string{
		"SAME": {"h/a:1", "oras://h/a:1.sif"}, "CHANGED": {"h/b:1", "h/b:1"}, "BOTH": {"h/b:1", "oras://h/b:1.sif"}, "LONE": {"", "oras://h/lone:1"},
		"NOW": {"h/b:1", "h/b:1"}, "STALE": {"h/a:1", "h/a:1"},
	} {
		p := processes[process]
		if got := [2]string{p.nameFor("docker"), p.nameFor("singularity")}; got != want {
			t.Errorf("%s has %q, want %q", process, got, want)
		}
	}
	if got := c.nextflowConfig(names, "docker", false); strings.Contains(got, "oras:") || strings.Contains(got, "LONE") {
		t.Errorf("got %s", got)
	}
}

// TestIsReplaced checks which requests of an earlier run stay.
func TestIsReplaced(t *testing.T) {
	t.Parallel()
	one, two := digest.FromString("1"), digest.FromString("2")
	main := &item{}
	main.Name, main.IsProcess, main.root.Digest = "P", true, one
	lone := &item{}
	lone.Name, lone.IsProcess, lone.IsSif = "P", true, true
	of := &item{of: main}
	of.Name, of.IsProcess, of.IsSif = "P", true, true
	old := request{Name: "P", Process: true, Digest: one}
	same := request{Name: "P", Process: true, Format: formatSif, Of: one}
	other := request{Name: "P", Process: true, Format: formatSif, Of: two}
	for name, tc := range map[string]struct {
		old  request
		all  []*item
		want bool
	}{
		"the image":                            {old, []*item{main}, true},
		"the Singularity image of the image":   {same, []*item{main}, false},
		"that of another image":                {other, []*item{main}, true},
		"the image, now a Singularity image":   {old, []*item{lone}, true},
		"an image and its Singularity image":   {old, []*item{main, of}, true},
		"its Singularity image is made again":  {same, []*item{main, of}, true},
		"a Singularity image without an image": {old, []*item{of}, false},
	} {
		if got := tc.old.isReplaced(tc.all); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
