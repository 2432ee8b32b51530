package conda

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"slipway.dev/services/conda/lockfile"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
)

// WheelHosts are the hosts that wheels may be fetched from; the zero value has none. Locks
// name the address of each wheel, as they name the channel of each Conda package.
type WheelHosts struct {
	// origins have the form https://host or http://host:port.
	origins []string
}

// ParseWheelHosts parses the setting conda_pypi_hosts: HOST, HOST:PORT or http(s)://HOST:PORT.
func ParseWheelHosts(list []string) (WheelHosts, error) {
	var out WheelHosts
	for _, text := range list {
		address := text
		if !strings.Contains(address, "://") {
			address = "https://" + address
		}
		u, err := url.Parse(address)
		if err != nil || !spec.IsWebURL(address) || strings.TrimSuffix(u.Path, "/") != "" || u.RawQuery != "" {
			return out, fmt.Errorf("conda_pypi_hosts: %q is not HOST, HOST:PORT or http://HOST:PORT", text)
		}
		out.origins = append(out.origins, origin(u))
	}
	return out, nil
}

// origin returns the scheme and host of an address, without a default port.
func origin(u *url.URL) string {
	host := strings.ToLower(u.Host)
	port := map[string]string{"https": ":443", "http": ":80"}[u.Scheme]
	return u.Scheme + "://" + strings.TrimSuffix(host, port)
}

// check returns fault.Invalid unless a wheel may be fetched from its address.
func (h WheelHosts) check(r spec.Record) error {
	u, err := url.Parse(r.URL)
	switch {
	case err != nil:
		return fault.Invalid.New("the address of "+fault.Quote(r.FileName)+" is malformed", err)
	case len(h.origins) == 0:
		return fault.Invalid.Newf("%s is a wheel of PyPI, and this server accepts none (its operator's setting conda_pypi_hosts)", fault.Quote(r.FileName))
	case !slices.Contains(h.origins, origin(u)):
		return fault.Invalid.Newf("the wheel %s is at %s, from which this server accepts none: use an index of %s, or have the operator add the host (setting conda_pypi_hosts)",
			fault.Quote(r.FileName), fault.Quote(origin(u)), strings.TrimPrefix(strings.Join(h.origins, ", "), "https://"))
	}
	return nil
}

// wheels returns the records of the wheels of a lock, in its order. glibc is the version of
// the machine's C library; "" for none.
func (s *Service) wheels(of lockfile.PlatformLock, glibc string) ([]spec.Record, error) {
	if len(of.PyPI) == 0 {
		return nil, nil
	}
	python, err := spec.PythonOf(of.Packages)
	if err != nil {
		return nil, err
	}
	var out []spec.Record
	seen := map[string]bool{}
	for _, p := range of.PyPI {
		r, err := p.Wheel(python, of.Platform, glibc)
		if err == nil {
			err = s.deps.WheelHosts.check(r)
		}
		if err != nil {
			return nil, err
		}
		if seen[r.Name] {
			return nil, fault.Invalid.Newf("the lock has two wheels of %s", r.Name)
		}
		seen[r.Name] = true
		out = append(out, r)
	}
	return out, nil
}

// glibc returns the version of the C library of a machine; "" for none.
func glibc(machine []spec.VirtualPackage) string {
	for _, v := range machine {
		if v.Name == "__glibc" {
			return v.Version
		}
	}
	return ""
}
