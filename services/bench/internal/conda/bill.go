package conda

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/world"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/sbom"
	"slipway.dev/services/internal/testkit/condadata"
)

// billPackages is the number of packages of a large environment.
const billPackages = 300

// Bill measures how long it takes to write the bill of materials of an environment of real records from the
// text of its lock.
func Bill(w *world.World, s *figure.Sheet) {
	all := condadata.Records(must.T{}, forgeName, "linux-64")
	var records []spec.Record
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if len(records) < billPackages {
			records = append(records, all[name][0])
		}
	}
	lock := must.Get(json.Marshal(records))
	s.Record("packages", float64(len(records)), "")
	for _, f := range []sbom.Format{sbom.SPDX, sbom.CycloneDX} {
		var took []elapsed
		var size int
		for range 10 * w.Rounds {
			took = append(took, timed(func() {
				var list []spec.Record
				must.Do(json.Unmarshal(lock, &list))
				m := sbom.Image{
					Repository: "registry.example.org/lab/tools", Digest: "sha256:" + strings.Repeat("a", 64), Platform: "linux/amd64",
					Components: sbom.Conda(list, spec.Prefix),
				}
				size = len(must.Get(m.Document(f)))
			}))
		}
		s.Check(string(f), 1000*figure.Median(each(took, elapsed.wall)), "ms", figure.AtMost(20))
		s.Record(string(f)+" cpu", 1000*figure.Median(each(took, elapsed.cpu)), "ms")
		s.Record(string(f)+" size", float64(size)/1000, "kB")
	}
}
