package channel

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// Channel is a channel whose place is known.
type Channel struct {
	// Name is what a record and a lock call it: a short name, or a URL without a login.
	Name string
	// URL is its address without a slash at the end, Mirrors those that hold the same.
	URL     string
	Mirrors []string
}

// folder is the URL of one of its platforms.
func folder(base, subdir string) string { return base + "/" + subdir + "/" }

// Names knows where channels are. Make it with NewNames.
type Names struct {
	alias string
	known map[string]Channel
	// plain are the hosts that the operator names with http.
	plain []string
}

// NewNames reads the settings conda_channel_alias, and conda_channels: a list of
// NAME=URL; a name that comes again has a mirror.
func NewNames(alias string, channels []string) (*Names, error) {
	n := &Names{known: map[string]Channel{}}
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
	return n, nil
}

// configured reads an address that the operator gives.
func (n *Names) configured(address string) (string, error) {
	u, err := parse(address)
	if err != nil {
		return "", err
	}
	if u.Scheme == "http" {
		n.plain = append(n.plain, u.Host)
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// Resolve finds a channel as people write it: a name that is configured, one below the
// alias, or a URL. fault.Invalid for what is none of these.
func (n *Names) Resolve(text string) (Channel, error) {
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

// IsKnown says whether the operator named a channel, or everybody knows it: those may
// stand in metrics by their names.
func (n *Names) IsKnown(name string) bool {
	_, ok := n.known[name]
	return ok || slices.Contains([]string{"conda-forge", "bioconda", "defaults"}, name)
}

// parse reads a URL that may be a channel's. No error repeats it: it may hold a login.
func parse(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || len(address) > limits.URL:
		return nil, errors.New("it is malformed")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Opaque != "":
		return nil, errors.New("it must be http(s)://host/path")
	case u.User != nil:
		return nil, errors.New("it holds a login; keep that at the platform, as credentials of the provider conda")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("it must have no query")
	}
	u.Host = strings.ToLower(u.Host)
	if u = u.JoinPath(); strings.HasPrefix(u.Path, "/t/") {
		return nil, errors.New("it holds a login; keep that at the platform, as credentials of the provider conda")
	}
	return u, nil
}

// isShort says whether a text is a channel's name: conda-forge, or pkgs/main.
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
