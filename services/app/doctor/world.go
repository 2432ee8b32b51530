package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/upstream"
)

// names are what has to be found by DNS.
func (d *doctor) names(ctx context.Context) []Finding {
	host := d.Registry
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	_, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		err = fmt.Errorf("the name %s is not found: %w", host, err)
	}
	return one("DNS", host+" is found", err, Fail, "see /etc/resolv.conf, and that its servers can be reached from here (in a container: --dns)")
}

// registries are the one that most images are at, and build_repository, with the
// login that is there for it.
func (d *doctor) registries(ctx context.Context) []Finding {
	client := upstream.New(upstream.Options{Egress: d.egress, Plain: d.Config.InsecureRegistries, Metrics: prometheus.NewRegistry()})
	out := one("registry", d.Registry+" answers", client.Ping(ctx, d.Registry, upstream.Login{}), Fail,
		"let this machine reach it over https; behind a proxy set HTTPS_PROXY; one in a private network goes into egress_allow")
	mirrors, _ := upstream.ParseMirrors(d.Config.RegistryMirrors) // which Validate reports
	for _, m := range mirrors {
		out = append(out, one("registry", m.Host+" (registry_mirrors) answers", client.Ping(ctx, m.Host, upstream.Login{}), Warn,
			"see that it runs, and that egress_allow names it if it is private; meanwhile "+m.Registry+" itself is asked")...)
	}
	host, _, _ := strings.Cut(d.Config.BuildRepository, "/")
	if host == "" {
		return out
	}
	logins, err := caller.ReadAuthFile(d.Config.RegistryAuthFile)
	if err != nil {
		return append(out, one("registry", "", err, Fail, "correct registry_auth_file: docker's config.json")...)
	}
	return append(out, one("registry", host+" (build_repository) answers, and takes the login that is there for it", client.Ping(ctx, host, loginFor(logins, d.Config.BuildRepository)), Fail,
		"see that it runs, that egress_allow names it if it is private, and that registry_auth_file has its login")...)
}

// loginFor is the one whose key is the longest that a repository begins with.
func loginFor(logins map[string]upstream.Login, repository string) upstream.Login {
	for key := repository; ; {
		if l, ok := logins[key]; ok {
			return l
		}
		i := strings.LastIndexByte(key, '/')
		if i < 0 {
			return upstream.Login{}
		}
		key = key[:i]
	}
}

// channels are where Conda packages come from.
func (d *doctor) channels(ctx context.Context) []Finding {
	var silent []string
	var last error
	for _, channel := range d.Channels {
		resp, err := d.head(ctx, channel+"/noarch/repodata.json")
		if err == nil && resp.StatusCode >= http.StatusBadRequest {
			err = errors.New(resp.Status)
		}
		if err != nil {
			silent, last = append(silent, channel), err
		}
	}
	if len(silent) > 0 {
		last = fmt.Errorf("no packages from %s: %w", strings.Join(silent, ", "), last)
	}
	return one("channels", strings.Join(d.Channels, ", ")+" answer", last, Warn,
		"let this machine reach them over https, or name a mirror of yours in the requests; only Conda requests need them")
}

// skew is by how much clocks may differ: tokens and certificates hold for minutes.
const skew = 30 * time.Second

// clock is held against whoever says the time with an answer.
func (d *doctor) clock(ctx context.Context) []Finding {
	for _, url := range slices.Concat(d.Channels, []string{"https://" + d.Registry + "/v2/"}) {
		resp, err := d.head(ctx, url)
		if err != nil {
			continue
		}
		theirs, err := http.ParseTime(resp.Header.Get("Date"))
		if err != nil {
			continue
		}
		off := d.Now().Sub(theirs).Round(time.Second)
		if off.Abs() > skew {
			return one("clock", "", fmt.Errorf("this machine's clock is off by %s, as %s says", off, resp.Request.URL.Host), Fail, "synchronise it: timedatectl set-ntp true")
		}
		return one("clock", "it agrees with "+resp.Request.URL.Host, nil, OK, "")
	}
	return one("clock", "", errors.New("nobody was reached who says the time"), Warn, "see DNS and channels; or look yourself: timedatectl")
}

func (d *doctor) head(ctx context.Context, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := d.web.Do(req)
	if err != nil {
		return nil, err
	}
	return resp, resp.Body.Close()
}
