package channel

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/spelling"
	"slipway.dev/services/internal/upstream"
)

// A Channel is a channel whose address is known.
type Channel struct {
	// Name is used in records and locks: a short name, or a URL without a login.
	Name string
	// URL is its address without a trailing slash. Mirrors are the addresses of its
	// mirrors.
	URL     string
	Mirrors []string
}

// folder returns the URL of a platform's folder.
func folder(base, subdir string) string { return base + "/" + subdir + "/" }

// Names resolves channel names to addresses. Use NewNames to create one. It is safe for concurrent
// use.
type Names struct{ current atomic.Pointer[names] }

// names is the content of Names. It is not modified after it was created.
type names struct {
	alias string
	known map[string]Channel
	// defaults lists the channels that the name "defaults" resolves to. If empty, the name
	// is ignored.
	defaults []Channel
	// plain lists the hosts that the operator configured with http.
	plain []string
}

// NewNames parses three settings: conda_channel_alias is a URL, conda_channels a list of
// NAME=URL, in which a repeated NAME adds a mirror, and conda_defaults the names or URLs of
// the channels that the name "defaults" resolves to.
func NewNames(alias string, channels []string, defaults ...string) (*Names, error) {
	n := &names{known: map[string]Channel{}}
	at, err := n.configured(alias)
	if err != nil {
		return nil, fmt.Errorf("conda_channel_alias: %w", err)
	}
	n.alias = at
	for _, c := range channels {
		name, address, ok := strings.Cut(c, "=")
		if !ok || !isShort(name) {
			return nil, fmt.Errorf("conda_channels: %q is not NAME=URL", c)
		}
		at, err := n.configured(address)
		if err != nil {
			return nil, fmt.Errorf("conda_channels: %s: %w", name, err)
		}
		known, again := n.known[name]
		if again {
			known.Mirrors = append(known.Mirrors, at)
		} else {
			known = Channel{Name: name, URL: at}
		}
		n.known[name] = known
	}
	for _, text := range defaults {
		c, err := n.resolve(text)
		if err != nil {
			return nil, fmt.Errorf("conda_defaults: %w", err)
		}
		n.defaults = append(n.defaults, c)
	}
	all := &Names{}
	all.current.Store(n)
	return all, nil
}

// mayBePlain reports whether the operator configured a host with http.
func (n *Names) mayBePlain(host string) bool { return slices.Contains(n.current.Load().plain, host) }

// Replace makes n resolve like next. Calls that have begun are not affected.
func (n *Names) Replace(next *Names) { n.current.Store(next.current.Load()) }

// Expand returns the channels that a name in a list of channels resolves to. "nodefaults"
// resolves to none. "defaults" resolves to the channels in conda_defaults; if that setting is
// empty, it resolves to none and note explains why. Expand returns fault.Invalid like Resolve.
func (n *Names) Expand(text string) (channels []Channel, note string, err error) {
	known := n.current.Load()
	switch strings.TrimSpace(text) {
	case "nodefaults":
		return nil, "", nil
	case "defaults":
		if _, own := known.known["defaults"]; own {
			break
		}
		if len(known.defaults) == 0 {
			note = `The channel "defaults" is ignored: this server takes no packages from it (its operator's setting conda_defaults)`
		}
		return known.defaults, note, nil
	}
	c, err := known.resolve(text)
	if err != nil {
		return nil, "", err
	}
	return []Channel{c}, "", nil
}

// Nearest returns the existing channel that a nonexistent name probably means; "" for none.
func (n *Names) Nearest(name string) string {
	best, fewest := "", max(2, len(name)/4)+1
	for _, known := range slices.Sorted(maps.Keys(n.current.Load().known)) {
		best, fewest = nearer(name, known, best, fewest)
	}
	for _, known := range wellKnown() {
		best, fewest = nearer(name, known, best, fewest)
	}
	return best
}

// wellKnown returns channels that many environments use.
func wellKnown() []string {
	return []string{"conda-forge", "bioconda", "nvidia", "pytorch", "rapidsai", "anaconda", "intel", "pyg", "fastai", "plotly", "dglteam", "robostack-staging"}
}

func nearer(name, known, best string, fewest int) (nearest string, distance int) {
	if strings.EqualFold(name, known) && name != known {
		return known, 0
	}
	if d := spelling.Distance(name, known); d > 0 && d < fewest {
		return known, d
	}
	return best, fewest
}

// configured parses an address from the configuration.
func (n *names) configured(address string) (string, error) {
	u, err := parse(address)
	if err != nil {
		return "", err
	}
	if u.Scheme == "http" {
		n.plain = append(n.plain, u.Host)
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// Resolve returns the channel for a configured name, a name below the alias, or a URL. It
// returns fault.Invalid for anything else.
func (n *Names) Resolve(text string) (Channel, error) { return n.current.Load().resolve(text) }

func (n *names) resolve(text string) (Channel, error) {
	text = strings.TrimRight(strings.TrimSpace(text), "/")
	if c, ok := n.known[text]; ok {
		return c, nil
	}
	if !strings.Contains(text, "://") {
		if !isShort(text) {
			return Channel{}, fault.Invalid.Newf("%.100q is not the name of a channel: those have letters, digits and -_./", text)
		}
		return Channel{Name: text, URL: n.alias + "/" + text}, nil
	}
	u, err := parse(text)
	if err != nil {
		return Channel{}, fault.Invalid.Newf("The URL of the channel cannot be used: %s", err)
	}
	if u.Scheme == "http" && !slices.Contains(n.plain, u.Host) {
		return Channel{}, fault.Invalid.Newf("The channel at %s must be reached by https, or be named by the operator (setting conda_channels)", u.Host)
	}
	at := strings.TrimRight(u.String(), "/")
	for _, c := range n.known {
		if c.URL == at || slices.Contains(c.Mirrors, at) {
			return c, nil
		}
	}
	if name, below := strings.CutPrefix(at, n.alias+"/"); below && isShort(name) {
		return Channel{Name: name, URL: at}, nil
	}
	return Channel{Name: at, URL: at}, nil
}

// IsKnown reports whether the operator configured a channel, or it is well known. Only such
// channels may appear in metrics by name.
func (n *Names) IsKnown(name string) bool {
	_, ok := n.current.Load().known[name]
	return ok || slices.Contains([]string{"conda-forge", "bioconda", "defaults"}, name)
}

// parse parses the URL of a channel. Its errors never contain the URL, which may hold a
// login.
func parse(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || len(address) > limits.URL:
		return nil, errors.New("it is malformed")
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != upstream.ChannelScheme || u.Host == "" || u.Opaque != "":
		return nil, errors.New("it must be http(s)://host/path, or oci://host/path for a channel in a registry")
	case u.User != nil:
		return nil, errors.New("it has a login; store that with `slipway credentials add NAME --channel URL` and --username, --bearer or --token-in-path instead")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("it must have no query")
	}
	u.Host = strings.ToLower(u.Host)
	if u = u.JoinPath(); strings.HasPrefix(u.Path, "/t/") {
		return nil, errors.New("it has a login; store that with `slipway credentials add NAME --channel URL` and --username, --bearer or --token-in-path instead")
	}
	if u.Scheme == upstream.ChannelScheme && !isRepository(u) {
		return nil, errors.New("it must be oci://host/path, with a path in lower case as the names of repositories")
	}
	return u, nil
}

// isRepository reports whether a URL is that of a repository of a registry.
func isRepository(u *url.URL) bool {
	name := strings.Trim(u.Path, "/")
	_, path, err := oci.ParseRepository(u.Host + "/" + name)
	return err == nil && path == name && u.RawPath == ""
}

// isShort reports whether a string is a channel name such as conda-forge or pkgs/main.
func isShort(s string) bool {
	if s == "" || len(s) > 100 {
		return false
	}
	for part := range strings.SplitSeq(s, "/") {
		if part == "" || strings.Trim(part, ".") == "" ||
			strings.Trim(part, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "" {
			return false
		}
	}
	return true
}
