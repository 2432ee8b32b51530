package spec

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// A ChannelLogin is a channel with the login to read it.
type ChannelLogin struct {
	// Channel is the channel's URL.
	Channel *url.URL
	// Username determines how Password is sent: "bearer" as a bearer token, "token" in the
	// path (/t/<token>/), any other with HTTP basic authentication. Registries (oci://) always
	// get HTTP basic authentication.
	Username, Password string
}

// PathOf returns the path of a channel's URL in the form that logins use after the host:
// "corp/private".
func PathOf(channel *url.URL) string { return strings.Trim(channel.Path, "/") }

// Contains reports whether an address is within the channel.
func (d ChannelLogin) Contains(u *url.URL) bool {
	return d.isHost(u) && strings.HasPrefix(u.Path, strings.TrimRight(d.Channel.Path, "/")+"/")
}

// isHost reports whether an address is on the channel's own host. No other host receives
// the login, not even one that serves files of the channel.
func (d ChannelLogin) isHost(u *url.URL) bool {
	return d.Channel.Scheme == u.Scheme && d.Channel.Host == u.Host
}

// Authorize adds the login to a request to the channel's host. It returns false if the request
// is for another host.
func (d ChannelLogin) Authorize(req *http.Request) bool {
	if d.Password == "" || !d.isHost(req.URL) {
		return false
	}
	switch {
	case d.Channel.Scheme == "oci":
		req.SetBasicAuth(d.Username, d.Password)
	case d.Username == "token":
		with := *req.URL
		with.Path, with.RawPath = "/t/"+d.Password+req.URL.Path, ""
		req.URL = &with
	case d.Username == "bearer":
		req.Header.Set("Authorization", "Bearer "+d.Password)
	default:
		req.SetBasicAuth(d.Username, d.Password)
	}
	return true
}

// WithoutLogin returns the name or URL of a channel, or the URL of an artifact, without a user name, password,
// query and token in the path (/t/<token>/): a user with access to an image may have no right to use the
// login. It returns "" for a malformed URL.
func WithoutLogin(s string) string {
	scheme, rest, isURL := strings.Cut(s, "://")
	if !isURL {
		return withoutToken(s)
	}
	rest, _, _ = strings.Cut(rest, "?")
	rest, _, _ = strings.Cut(rest, "#")
	host, name, _ := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		host = host[i+1:]
	}
	// Browsers and conda would find a login elsewhere in such a URL, e.g. after a backslash.
	if u, err := url.Parse(s); err != nil || u.Host != host || strings.Contains(host, "\\") {
		return ""
	}
	if name == "" {
		return scheme + "://" + host
	}
	return scheme + "://" + host + "/" + withoutToken(name)
}

// withoutToken returns a path without its tokens: the component "t", and the one that follows.
func withoutToken(name string) string {
	list := strings.Split(name, "/")
	for i := 0; i+1 < len(list); i++ {
		if list[i] == "t" {
			list = slices.Delete(list, i, i+2)
			i--
		}
	}
	return strings.Join(list, "/")
}
