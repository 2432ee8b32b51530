package conda

import (
	"context"
	"net/http"
	"net/url"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/internal/conda"
	"slipway.dev/services/internal/upstream"
)

// doors are the logins for the channels of a build that want one.
type doors []conda.Door

// channels asks for the logins of channels, which are URLs. One that the build room
// has no login for any more is left out: the channel then says so.
func channels(l *jobs.Logins, ctx context.Context, private []string) (doors, error) {
	var out doors
	for _, text := range private {
		at, err := url.Parse(text)
		if err != nil {
			return nil, err
		}
		login, err := l.Ask(ctx, upstream.Repository{Host: at.Host, Name: conda.PathOf(at)}, buildv1.LoginPurpose_LOGIN_PURPOSE_CHANNEL)
		if err != nil {
			return nil, err
		}
		if login.Password != "" {
			out = append(out, conda.Door{Channel: at, Username: login.Username, Password: login.Password})
		}
	}
	return out, nil
}

// authorize adds the login of the channel whose package is asked for, if it is at the
// channel's host.
func (d doors) authorize(req *http.Request) {
	for _, door := range d {
		if door.Has(req.URL) && door.Open(req) {
			return
		}
	}
	for _, door := range d { // it may keep its packages in another folder
		if door.Open(req) {
			return
		}
	}
}
