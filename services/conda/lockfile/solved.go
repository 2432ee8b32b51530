package lockfile

import (
	"encoding/json"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/conda/spec"
)

// Solved returns the lock of the solutions of one request, one or several platforms each. There must be at
// least one.
func Solved(solutions []*condav1.SolvePackagesResponse) (Lock, error) {
	out := Lock{Channels: solutions[0].GetChannels(), ChannelURLs: solutions[0].GetChannelUrls()} // all are of one request
	for _, l := range solutions {
		for _, of := range l.GetAnswer().GetLocks() {
			out.Comments = append(out.Comments, Provenance(of.GetAsOf(), of.GetExcludeNewer(), of.GetSnapshots())...)
		}
		for i, raw := range l.GetRecords() {
			p := PlatformLock{Platform: l.GetSubdirs()[i]}
			var records []spec.Record
			if err := json.Unmarshal([]byte(raw), &records); err != nil {
				return out, err
			}
			p.Packages, p.PyPI = spec.Split(records)
			out.Platforms = append(out.Platforms, p)
		}
	}
	return out, nil
}
