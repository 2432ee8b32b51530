package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/services/app"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// names checks that host names can be resolved.
func (d *doctor) names(ctx context.Context) []Finding {
	host := d.Registry
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	_, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		err = fmt.Errorf("the name %s cannot be resolved: %w", host, err)
	}
	return one("DNS", host+" is found", err, d.ifUnreachable(ctx), "check /etc/resolv.conf, and that its servers can be reached from here (in a container: --dns)")
}

// mirrors returns the mirrors of registry_mirrors. Validate reports errors in the setting.
func (d *doctor) mirrors() []upstream.Mirror {
	mirrors, _ := upstream.ParseMirrors(d.Config.RegistryMirrors)
	return mirrors
}

func (d *doctor) registryClient() *upstream.Client {
	return upstream.New(upstream.Options{Egress: d.egress, Plain: d.Config.InsecureRegistries, Metrics: prometheus.NewRegistry()})
}

// ifUnreachable returns the state if Registry cannot be reached: Warn if one of its mirrors
// responds, since images are then pulled from there.
func (d *doctor) ifUnreachable(ctx context.Context) State {
	for _, m := range d.mirrors() {
		if oci.SameHost(m.Registry, oci.CanonicalHost(d.Registry)) && d.registryClient().Ping(ctx, m.Host, upstream.Login{}) == nil {
			return Warn
		}
	}
	return Fail
}

// registries checks the default registry, and build_repository with its login.
func (d *doctor) registries(ctx context.Context) []Finding {
	client := d.registryClient()
	out := one("registry", d.Registry+" answers", client.Ping(ctx, d.Registry, upstream.Login{}), d.ifUnreachable(ctx),
		"let this machine reach it over https; behind a proxy set HTTPS_PROXY; one in a private network goes into egress_allow")
	for _, m := range d.mirrors() {
		out = append(out, one("registry", m.Host+" (registry_mirrors) answers", client.Ping(ctx, m.Host, upstream.Login{}), Warn,
			"check that it is running, and that egress_allow names it if it is private; meanwhile "+m.Registry+" itself is used")...)
	}
	host, _, _ := strings.Cut(d.Config.BuildRepository, "/")
	if host == "" {
		return out
	}
	logins, err := caller.ReadAuthFile(d.Config.RegistryAuthFile)
	if err != nil {
		return append(out, one("registry", "", err, Fail, "correct registry_auth_file: docker's config.json")...)
	}
	return append(out, one("registry", host+" (build_repository) responds and accepts its login", client.Ping(ctx, host, caller.LoginFor(logins, d.Config.BuildRepository)), Fail,
		"check that it is running, that egress_allow names it if it is private, and that registry_auth_file has its login")...)
}

// provider checks the sign-in provider: its discovery document and issuer, its certificate, and that
// browsers come back to the platform.
func (d *doctor) provider(ctx context.Context) []Finding {
	const check = "sign-in"
	if d.Config.OIDCIssuer == "" {
		return nil
	}
	callback, err := app.CheckProvider(ctx, d.Config)
	if err != nil {
		return one(check, "", fmt.Errorf("users cannot sign in at %s: %w", d.Config.OIDCIssuer, err), Fail,
			"let this machine reach its /.well-known/openid-configuration, trust its authority (SSL_CERT_FILE), and set oidc_issuer to the issuer in that document")
	}
	if u, err := url.Parse(callback); err != nil || u.Scheme != "https" && !isOwnMachine(u.Hostname()) {
		return one(check, "", fmt.Errorf("%s responds, but sends users back to %s without https, which providers reject", d.Config.OIDCIssuer, callback), Warn, "set platform_url, or public_url, to an https address")
	}
	return one(check, fmt.Sprintf("%s responds; its client %s must have the redirect address %s", d.Config.OIDCIssuer, d.Config.OIDCClientID, callback), nil, OK, "")
}

// isOwnMachine reports whether a host is this machine.
func isOwnMachine(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// channels checks the Conda channels.
func (d *doctor) channels(ctx context.Context) []Finding {
	var silent []string
	var last error
	for _, channel := range d.Channels {
		list := channel + "/noarch/repodata.json"
		if strings.HasPrefix(channel, upstream.ChannelScheme+"://") {
			list += ".zst" // mirrors in registries have no other file
		}
		resp, err := d.head(ctx, list)
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

// skew is the maximum difference between clocks. Some tokens are valid for minutes only.
const skew = 30 * time.Second

// clock compares the clock with the Date header of any server.
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
			return one("clock", "", fmt.Errorf("this machine's clock is off by %s, compared with %s", off, resp.Request.URL.Host), Fail, "synchronise it: timedatectl set-ntp true")
		}
		return one("clock", "it agrees with "+resp.Request.URL.Host, nil, OK, "")
	}
	return one("clock", "", errors.New("no server with a clock could be reached"), Warn, "check DNS and channels, or run timedatectl")
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
