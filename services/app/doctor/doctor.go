// Package doctor checks what a slipwayd with given settings needs from its machine and from
// other hosts, and suggests fixes. It changes nothing: it creates no folders and migrates
// no tables, only tests whether ports are free, and deletes its test object from a bucket.
package doctor

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/disk"
	"slipway.dev/services/internal/upstream"
)

// A State is the result of a check.
type State string

// States. Warn means that something works, but with restrictions or not for long.
const (
	OK   State = "ok"
	Warn State = "warn"
	Fail State = "fail"
)

// A Finding is the result of checking one thing.
type Finding struct {
	// Check is the name of the check, for example "runc". A check may have several
	// findings.
	Check string `json:"check"`
	State State  `json:"state"`
	// Text is the result as a sentence. Do is the fix, or "".
	Text string `json:"text"`
	Do   string `json:"do,omitempty"`
}

// Options are the options of an examination. The zero value of each field is the default.
type Options struct {
	Config config.Config
	// Registry and Channels are the addresses that every installation must reach. Without
	// Channels, the default channels at their configured addresses are checked.
	Registry string
	Channels []string
	// Groups is where the system mounts its control groups.
	Groups string
	// Free returns the number of free bytes on the disk of a path. nil measures the disk.
	Free func(path string) (int64, error)
	Now  func() time.Time
}

// doctor is one examination.
type doctor struct {
	Options
	egress *upstream.Egress
	// web is a client for public addresses and those in egress_allow.
	web *http.Client
}

// checkTimeout is the timeout of one check.
const checkTimeout = 20 * time.Second

// Examine runs all checks concurrently, and returns their findings in a fixed order: this
// process, the machine, the stores, other hosts.
func Examine(ctx context.Context, o Options) []Finding {
	d := &doctor{Options: o}
	d.defaults()
	egress, err := upstream.NewEgress(o.Config.EgressAllow)
	if err != nil {
		return []Finding{{Check: "settings", State: Fail, Text: err.Error(), Do: "correct egress_allow; `slipwayd config` checks the settings"}}
	}
	d.egress = egress
	d.web = &http.Client{Transport: upstream.NewChannelTransport(d.registryClient(), upstream.NewTransport(egress))}
	checks := []func(context.Context) []Finding{
		d.settings, d.data, d.files, d.rules, d.ports, d.certificates, d.publicURL,
		d.builds, d.groups, d.database, d.auditSink, d.redis, d.nats, d.blobs, d.names, d.registries, d.provider, d.channels, d.clock,
	}
	found := make([][]Finding, len(checks))
	var all sync.WaitGroup
	for i, check := range checks {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, checkTimeout)
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

// channel returns the address of a channel that requests name without an address.
func (d *doctor) channel(name string) string {
	for _, c := range d.Config.CondaChannels {
		if address, ok := strings.CutPrefix(c, name+"="); ok {
			return strings.TrimRight(address, "/")
		}
	}
	return strings.TrimRight(d.Config.CondaChannelAlias, "/") + "/" + name
}

func (d *doctor) defaults() {
	if d.Registry == "" {
		d.Registry = "registry-1.docker.io"
	}
	if len(d.Channels) == 0 {
		d.Channels = []string{d.channel("conda-forge"), d.channel("bioconda")}
	}
	if d.Free == nil {
		d.Free = func(path string) (int64, error) {
			space, err := disk.Of(path)
			return space.Free, err
		}
	}
	if d.Groups == "" {
		d.Groups = "/sys/fs/cgroup"
	}
	if d.Now == nil {
		d.Now = time.Now
	}
}

// settings returns the errors of Validate.
func (d *doctor) settings(context.Context) []Finding {
	if err := d.Config.Validate(); err != nil {
		return []Finding{{Check: "settings", State: Fail, Text: err.Error(), Do: "correct them; `slipwayd config --explain` describes each"}}
	}
	return []Finding{{Check: "settings", State: OK, Text: "the settings are valid"}}
}

// one returns the single finding of a check, which is OK if err is nil.
func one(check, fine string, err error, state State, do string) []Finding {
	if err == nil {
		return []Finding{{Check: check, State: OK, Text: fine}}
	}
	return []Finding{{Check: check, State: state, Text: err.Error(), Do: do}}
}
