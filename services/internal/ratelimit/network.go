package ratelimit

import (
	"strconv"

	"slipway.dev/services/internal/fairshare"
)

// A level is a caller, or a network that the caller belongs to. Its limit is that of one
// caller, multiplied by times.
type level struct {
	key   string
	times int
}

// levels returns the levels that a charge of a caller counts against, the caller itself first,
// and the hash tag that keeps their keys in one slot of a cluster. An IPv6 client, a /64, also
// counts against its /56 and its /48, because providers assign whole networks of these sizes to
// one customer.
func levels(caller string) (tag string, all []level) {
	all = []level{{caller, 1}}
	for _, n := range fairshare.ParseClient(caller).Networks() {
		all = append(all, level{"ip:" + n.Prefix.String(), n.Clients})
	}
	return all[len(all)-1].key, all
}

// charged is the input of one charge: a rule for each key, in the same order.
type charged struct {
	keys  []string
	rules []Rule
	// network is the key of a rule's network, or empty for rules of the caller itself.
	networks []string
	// mark identifies the slices of a caller in the keys.
	mark string
}

// counted returns the keys and rules of a charge.
func (l *Limiter) counted(who account, limit Limit) charged {
	tag, all := levels(who.caller)
	c := charged{mark: l.stock.replica}
	if len(all) > 1 {
		c.mark += ":" + who.caller // the networks' keys have slices of several callers
	}
	for i, lv := range all {
		for _, r := range limit {
			key, network := "limit:{"+tag+"}:", ""
			if lv.key != tag {
				key += lv.key + ":"
			}
			if i > 0 {
				network = lv.key
			}
			c.keys = append(c.keys, key+who.name+":"+strconv.FormatInt(r.Window.Milliseconds(), 10))
			c.rules = append(c.rules, Rule{Count: r.Count * lv.times, Window: r.Window})
			c.networks = append(c.networks, network)
		}
	}
	return c
}
