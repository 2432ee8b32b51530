package conda

import (
	"context"
	"net/http"
	"net/url"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/upstream"
)

// channelLogins are the logins for a build's private channels.
type channelLogins []spec.ChannelLogin

// channels requests the logins of private channels, which are URLs. A channel without a
// login is omitted, so that its own response explains the failure.
func channels(l *jobs.Logins, ctx context.Context, private []string) (channelLogins, error) {
	var out channelLogins
	for _, text := range private {
		at, err := url.Parse(text)
		if err != nil {
			return nil, err
		}
		login, err := l.Lookup(ctx, upstream.Repository{Host: at.Host, Name: spec.PathOf(at)}, buildv1.LoginPurpose_LOGIN_PURPOSE_CHANNEL)
		if err != nil {
			return nil, err
		}
		if login.Password != "" {
			out = append(out, spec.ChannelLogin{Channel: at, Username: login.Username, Password: login.Password})
		}
	}
	return out, nil
}

// authorize adds the login of the package's channel, if the request is to the channel's
// host.
func (d channelLogins) authorize(req *http.Request) {
	for _, login := range d {
		if login.Contains(req.URL) && login.Authorize(req) {
			return
		}
	}
	for _, login := range d { // the channel may store its packages in another folder
		if login.Authorize(req) {
			return
		}
	}
}
