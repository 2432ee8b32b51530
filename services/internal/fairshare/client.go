package fairshare

import (
	"net/netip"
	"slices"
	"strings"
)

// A Client identifies the holder of a share: a user, an address without a user, or the service
// itself. The zero value is a stranger whose address is unknown.
type Client struct {
	user    string
	addr    netip.Addr
	service bool
}

// User returns the client of a user. id must be unique among all users and not empty.
func User(id string) Client { return Client{user: id} }

// Service returns the client of work that the service does for all clients. It ranks with
// users.
func Service() Client { return Client{service: true} }

// Address returns the client of an address without a user. All addresses of an IPv6 /64
// are one client, since a single machine usually has a whole /64.
func Address(ip netip.Addr) Client {
	ip = ip.Unmap().WithZone("")
	if ip.Is6() {
		ip = network(ip, 64).Addr()
	}
	return Client{addr: ip}
}

// IsAnonymous reports whether the client is neither a user nor the service.
func (c Client) IsAnonymous() bool { return c.user == "" && !c.service }

// String returns the client as a key for logs, maps and rate limits: "user:<id>",
// "ip:<IPv4 address>", "ip:<IPv6 prefix>/64" or "service".
func (c Client) String() string {
	switch {
	case c.user != "":
		return "user:" + c.user
	case c.service:
		return "service"
	case c.addr.Is6():
		return "ip:" + network(c.addr, 64).String()
	}
	return "ip:" + c.addr.String()
}

// ParseClient parses a key from String. It returns the zero value for any other text.
func ParseClient(key string) Client {
	if id, ok := strings.CutPrefix(key, "user:"); ok {
		return User(id)
	}
	if key == Service().String() {
		return Service()
	}
	text, isAddress := strings.CutPrefix(key, "ip:")
	if p, err := netip.ParsePrefix(text); err == nil && isAddress {
		return Address(p.Addr())
	}
	if ip, err := netip.ParseAddr(text); err == nil && isAddress {
		return Address(ip)
	}
	return Client{}
}

// group identifies one level of the hierarchy that shares are divided along: a network, or
// a client.
type group struct {
	client  Client
	network netip.Prefix
}

// level is a group of a client with its limit, as a multiple of Config.PerClient; 0 means no
// limit.
type level struct {
	group
	clients int64
}

// A Network is a network that a client belongs to.
type Network struct {
	Prefix netip.Prefix
	// Clients is the limit of the network, as a multiple of the limit of one client.
	Clients int
}

// Networks returns the networks that have a limit of their own and that a client without a
// user belongs to, the smallest first: the /56 and /48 of an IPv6 address.
func (c Client) Networks() []Network {
	var out []Network
	for _, l := range slices.Backward(c.levels()) {
		if l.clients > 1 {
			out = append(out, Network{l.network, int(l.clients)})
		}
	}
	return out
}

// levels returns the client's groups from the widest to the client itself. A provider
// hands out whole IPv6 networks (/56 to households, /48 to sites), so these also have a
// limit of their own. An IPv4 /24 has none: each address may be a site behind NAT.
func (c Client) levels() []level {
	switch {
	case !c.addr.IsValid():
		return []level{{group{client: c}, 1}}
	case c.addr.Is4():
		return []level{{group{network: network(c.addr, 24)}, 0}, {group{network: network(c.addr, 32)}, 1}}
	}
	return []level{{group{network: network(c.addr, 48)}, 4}, {group{network: network(c.addr, 56)}, 2}, {group{network: network(c.addr, 64)}, 1}}
}

// network returns the network of an address. Its arguments come from this file only, and
// always fit each other.
func network(ip netip.Addr, bits int) netip.Prefix {
	p, _ := ip.Prefix(bits) // the error is for more bits than the address has
	return p
}
