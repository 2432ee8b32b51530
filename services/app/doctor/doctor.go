// Package doctor looks at what a slipwayd with some settings needs of its machine
// and of others, and says of each thing whether it is as it should be, and if not
// what to do. It changes nothing: a folder that is missing is not made, tables are
// not migrated, of ports it only tries whether they are free, and what it puts into a
// bucket it removes.
package doctor

import (
	"context"
	"net/http"
	"sync"
	"time"

	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/upstream"
)

// State is how something is.
type State string

// The states: Warn is for what works, but less well or not for long.
const (
	OK   State = "ok"
	Warn State = "warn"
	Fail State = "fail"
)

// Finding is what was seen of one thing.
type Finding struct {
	// Check is what was looked at, e.g. "runc". Several findings may be of one.
	Check string `json:"check"`
	State State  `json:"state"`
	// Text is what was seen, a sentence; Do is what helps, "" where nothing has to.
	Text string `json:"text"`
	Do   string `json:"do,omitempty"`
}

// Options are what is looked at; the zero value of each is the usual.
type Options struct {
	Config config.Config
	// Registry and Channels are what every installation is expected to reach.
	Registry string
	Channels []string
	// Groups is where the system shows its control groups.
	Groups string
	Now    func() time.Time
}

// doctor is one examination.
type doctor struct {
	Options
	egress *upstream.Egress
	// web speaks to what everybody may reach, and to what egress_allow names.
	web *http.Client
}

// patience is how long one check may take.
const patience = 20 * time.Second

// Examine looks at everything at once, and answers in an order of its own: this
// process, the machine, the stores, the world.
func Examine(ctx context.Context, o Options) []Finding {
	d := &doctor{Options: o}
	d.defaults()
	egress, err := upstream.NewEgress(o.Config.EgressAllow)
	if err != nil {
		return []Finding{{Check: "settings", State: Fail, Text: err.Error(), Do: "correct egress_allow; `slipwayd config` checks the settings"}}
	}
	d.egress, d.web = egress, &http.Client{Transport: upstream.NewTransport(egress)}
	checks := []func(context.Context) []Finding{
		d.settings, d.data, d.ports, d.certificates, d.publicURL,
		d.builds, d.groups, d.database, d.redis, d.nats, d.blobs, d.names, d.registries, d.channels, d.clock,
	}
	found := make([][]Finding, len(checks))
	var all sync.WaitGroup
	for i, check := range checks {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			found[i] = check(ctx)
		})
	}
	all.Wait()
	var out []Finding
	for _, f := range found {
		out = append(out, f...)
	}
	return out
}

func (d *doctor) defaults() {
	if d.Registry == "" {
		d.Registry = "registry-1.docker.io"
	}
	if len(d.Channels) == 0 {
		d.Channels = []string{"https://conda.anaconda.org/conda-forge", "https://conda.anaconda.org/bioconda"}
	}
	if d.Groups == "" {
		d.Groups = "/sys/fs/cgroup"
	}
	if d.Now == nil {
		d.Now = time.Now
	}
}

// settings are those that Validate finds fault with.
func (d *doctor) settings(context.Context) []Finding {
	if err := d.Config.Validate(); err != nil {
		return []Finding{{Check: "settings", State: Fail, Text: err.Error(), Do: "correct them; `slipwayd config --explain` says what each is"}}
	}
	return []Finding{{Check: "settings", State: OK, Text: "the settings can be read and fit together"}}
}

// one is the single finding of a check: fine where err is nil.
func one(check, fine string, err error, state State, do string) []Finding {
	if err == nil {
		return []Finding{{Check: check, State: OK, Text: fine}}
	}
	return []Finding{{Check: check, State: state, Text: err.Error(), Do: do}}
}
