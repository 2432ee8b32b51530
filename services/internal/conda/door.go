package conda

import (
	"net/http"
	"net/url"
	"strings"
)

// Door is a channel that is read with a login.
type Door struct {
	// Channel is its address.
	Channel *url.URL
	// Username says how Password is shown: as "bearer" token, as a "token" in the path
	// (/t/<token>/), else both as HTTP basic.
	Username, Password string
}

// PathOf is a channel's path as logins name it, after its host: "corp/private".
func PathOf(channel *url.URL) string { return strings.Trim(channel.Path, "/") }

// Has says whether an address lies in the channel.
func (d Door) Has(u *url.URL) bool {
	return d.isHost(u) && strings.HasPrefix(u.Path, strings.TrimRight(d.Channel.Path, "/")+"/")
}

// isHost says whether an address is at the channel's own host: no other gets the
// login, whatever the channel says of where its files are.
func (d Door) isHost(u *url.URL) bool {
	return d.Channel.Scheme == u.Scheme && d.Channel.Host == u.Host
}

// Open adds the login to a request to the channel's host; false where the request is
// for another.
func (d Door) Open(req *http.Request) bool {
	if d.Password == "" || !d.isHost(req.URL) {
		return false
	}
	switch d.Username {
	case "token":
		with := *req.URL
		with.Path, with.RawPath = "/t/"+d.Password+req.URL.Path, ""
		req.URL = &with
	case "bearer":
		req.Header.Set("Authorization", "Bearer "+d.Password)
	default:
		req.SetBasicAuth(d.Username, d.Password)
	}
	return true
}
