package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// ports checks that the ports are free, or used by this service.
func (d *doctor) ports(ctx context.Context) []Finding {
	var out []Finding
	for _, p := range []struct{ key, addr string }{
		{"http_addr", d.Config.HTTPAddr}, {"platform_http_addr", d.Config.PlatformHTTPAddr},
		{"admin_addr", d.Config.AdminAddr}, {"store_addr", d.Config.StoreAddr},
	} {
		if p.addr != "" && (p.key != "store_addr" || d.Config.BuildRepository == "") {
			out = append(out, d.port(ctx, p.key, p.addr))
		}
	}
	return out
}

func (d *doctor) port(ctx context.Context, key, addr string) Finding {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	switch {
	case err == nil:
		_ = l.Close()
		return Finding{Check: "ports", State: OK, Text: fmt.Sprintf("%s (%s) is free", addr, key)}
	case errors.Is(err, syscall.EADDRINUSE) && d.running(ctx):
		return Finding{Check: "ports", State: OK, Text: fmt.Sprintf("%s (%s) is taken; a slipwayd runs with these settings", addr, key)}
	case errors.Is(err, syscall.EADDRINUSE):
		return Finding{Check: "ports", State: Fail, Text: fmt.Sprintf("%s (%s) is taken by another program", addr, key), Do: "`ss -ltnp` shows the program: stop it, or set another " + key}
	case errors.Is(err, syscall.EACCES):
		return Finding{Check: "ports", State: Fail, Text: fmt.Sprintf("this user may not listen on %s (%s)", addr, key), Do: "take a port from 1024 on, or give the right: AmbientCapabilities=CAP_NET_BIND_SERVICE"}
	}
	return Finding{Check: "ports", State: Fail, Text: fmt.Sprintf("it is not possible to listen on %s (%s): %v", addr, key, err), Do: "set " + key + " to an address of this machine; 0.0.0.0 is all of them"}
}

// running reports whether a slipwayd responds at admin_addr.
func (d *doctor) running(ctx context.Context) bool {
	host, port, err := net.SplitHostPort(d.Config.AdminAddr)
	if err != nil {
		return false
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	body, err := d.read(ctx, "http://"+net.JoinHostPort(host, port)+"/livez", http.DefaultTransport)
	return err == nil && string(body) == "ok\n"
}

// publicURL checks that public_url leads to this service.
func (d *doctor) publicURL(ctx context.Context) []Finding {
	const check = "public_url"
	if !d.running(ctx) {
		return one(check, "", errors.New("slipwayd does not run here, so that it is unknown where "+d.Config.PublicURL+" leads"), Warn, "start it, and run this check again")
	}
	body, err := d.read(ctx, strings.TrimRight(d.Config.PublicURL, "/")+"/service-info", http.DefaultTransport)
	var info struct {
		ServiceInfo struct{ Version string } `json:"serviceInfo"`
	}
	if err == nil && (json.Unmarshal(body, &info) != nil || info.ServiceInfo.Version == "") {
		err = errors.New("another server responds there")
	}
	if err != nil {
		err = fmt.Errorf("%s does not lead here: %w; clients cannot pull the names that requests return", d.Config.PublicURL, err)
	}
	return one(check, d.Config.PublicURL+" leads here", err, Fail, "set public_url to the address that clients use, and have DNS, the proxy and its certificate lead it to http_addr")
}

// answerLimit is the maximum size of a response in bytes.
const answerLimit = 64 << 10

func (d *doctor) read(ctx context.Context, url string, through http.RoundTripper) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := through.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, answerLimit))
}

// soon is how long before its expiry a certificate should have been renewed, at most: a quarter of
// its lifetime if that is shorter.
const soon = 14 * 24 * time.Hour

// certificates checks that certificates match their keys and the host of public_url, and
// are valid now.
func (d *doctor) certificates(context.Context) []Finding {
	c := d.Config
	var out []Finding
	for _, pair := range []struct{ key, cert, private, host string }{
		{"tls_cert_file", c.TLSCertFile, c.TLSKeyFile, hostOf(c.PublicURL)},
		{"rpc_cert_file", c.RPCCertFile, c.RPCKeyFile, ""},
		{"buildkit_cert_file", c.BuildkitCertFile, c.BuildkitKeyFile, ""},
	} {
		if pair.cert != "" {
			out = append(out, d.certificate(pair.key, pair.cert, pair.private, pair.host))
		}
	}
	return out
}

func (d *doctor) certificate(key, cert, private, host string) Finding {
	f := Finding{Check: "certificates", State: Fail, Do: "renew " + cert + "; slipwayd reloads the file when it changes"}
	pair, err := tls.LoadX509KeyPair(cert, private)
	var leaf *x509.Certificate
	if err == nil {
		leaf, err = x509.ParseCertificate(pair.Certificate[0])
	}
	if err != nil {
		f.Text, f.Do = fmt.Sprintf("%s: %v", key, err), "give a certificate and its own key, as PEM"
		return f
	}
	left := leaf.NotAfter.Sub(d.Now())
	switch {
	case left < 0:
		f.Text = fmt.Sprintf("%s expired on %s", key, leaf.NotAfter.Format(time.DateOnly))
	case d.Now().Before(leaf.NotBefore):
		f.Text, f.Do = fmt.Sprintf("%s is valid only from %s", key, leaf.NotBefore.Format(time.DateTime)), "check the clock of this machine (timedatectl), or wait"
	case host != "" && leaf.VerifyHostname(host) != nil:
		f.Text, f.Do = fmt.Sprintf("%s is not for %s: %v", key, host, leaf.VerifyHostname(host)), "take one that names the host of public_url"
	case left < min(soon, leaf.NotAfter.Sub(leaf.NotBefore)/4):
		f.State, f.Text = Warn, fmt.Sprintf("%s expires on %s", key, leaf.NotAfter.Format(time.DateOnly))
	default:
		return Finding{Check: "certificates", State: OK, Text: fmt.Sprintf("%s is valid until %s", key, leaf.NotAfter.Format(time.DateOnly))}
	}
	return f
}

func hostOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	return u.Hostname()
}
