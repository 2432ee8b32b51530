package bundle

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// schemeTimeout is how long one request to find out the scheme of a registry may take.
const schemeTimeout = 10 * time.Second

// checkScheme returns an error if a registry uses HTTPS and plain is set, or if it uses plain HTTP and plain is not
// set, or if its certificate is not trusted. The client of registries would repeat its requests for minutes. Other errors are those of the first push.
func checkScheme(ctx context.Context, registry string, plain bool) error {
	if registry == "docker.io" { // its address has another name
		return nil
	}
	if !plain {
		_, err := schemeStatus(ctx, "https", registry)
		if errors.Is(err, http.ErrSchemeMismatch) {
			return fmt.Errorf("%s uses plain HTTP, without TLS; give --plain-http", registry)
		}
		folder := filepath.Join(certificates, registry)
		if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok || exists(folder) {
			return nil
		}
		return fmt.Errorf("the certificate of %s is not trusted; put that of its authority into %s: %w", registry, filepath.Join(folder, "ca.crt"), err)
	}
	if isPlain, err := schemeStatus(ctx, "http", registry); err == nil && isPlain {
		return nil
	}
	_, err := schemeStatus(ctx, "https", registry)
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); err != nil && !ok {
		return nil // it does not use HTTPS either, or cannot be reached
	}
	if isLoopback(registry) {
		return fmt.Errorf("%s uses HTTPS, and plain HTTP is the default for this machine; give --plain-http=false", registry)
	}
	return fmt.Errorf("%s uses HTTPS; omit --plain-http", registry)
}

// certificates is the folder of the authorities that Docker and this program trust for single registries.
const certificates = "/etc/docker/certs.d"

func exists(folder string) bool {
	_, err := os.Stat(folder)
	return err == nil
}

// schemeStatus reports whether a registry responds, and not as servers with HTTPS respond to plain HTTP: with
// status 400, or by a redirect.
func schemeStatus(ctx context.Context, scheme, registry string) (bool, error) {
	ctx, stop := context.WithTimeout(ctx, schemeTimeout)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+registry+"/v2/", http.NoBody)
	if err != nil {
		return false, err
	}
	c := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := c.Do(req)
	if err != nil {
		return false, err
	}
	isOther := res.StatusCode == http.StatusBadRequest || strings.HasPrefix(res.Header.Get("Location"), "https:")
	return !isOther, res.Body.Close()
}
