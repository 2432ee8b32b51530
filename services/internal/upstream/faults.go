package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/fault"
)

// A statusError is a response of a registry with an error status.
type statusError struct {
	host  string
	code  int
	after time.Duration
}

func (e *statusError) Error() string { return fmt.Sprintf("%s returned status %d", e.host, e.code) }

// fault returns the fault for the client that requested the image.
func (e *statusError) fault() *fault.Error {
	switch e.code {
	case http.StatusNotFound:
		return fault.NotFound.New("The registry "+e.host+" does not know the image", e).WithCode(fault.ImageNotFound)
	case http.StatusUnauthorized:
		return fault.Unauthenticated.New("The registry "+e.host+" requires credentials for the image, or does not have it", e).WithCode(fault.ImageDenied)
	case http.StatusForbidden:
		return fault.Denied.New("The registry "+e.host+" does not allow access to the image", e).WithCode(fault.ImageDenied)
	case http.StatusTooManyRequests:
		return fault.Exhausted.New("The registry "+e.host+" limits the rate of requests; try again later", e).
			After(max(e.after, time.Second)).WithCode(fault.RegistryLimit)
	case http.StatusRequestedRangeNotSatisfiable:
		return errRange
	}
	if e.code >= 500 {
		return fault.Unavailable.New(fmt.Sprintf("The registry %s is unavailable (status %d)", e.host, e.code), e).
			After(max(e.after, 5*time.Second)).WithCode(fault.RegistryUnavailable)
	}
	return unexpected(e.host, e)
}

// errRange is returned when a requested range is outside of the blob.
var errRange = fault.Invalid.Newf("The blob does not have the requested range")

// IsRange reports whether err is for a range outside of the blob.
func IsRange(err error) bool { return errors.Is(err, errRange) }

// unreachable converts the error of a request without a response to a fault.
func unreachable(host string, err error) error {
	var st *statusError
	switch {
	case errors.As(err, &st):
		return st.fault()
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, new(*fault.Error)):
		return err
	case isTimeout(err):
		return fault.Timeout.New("The registry "+host+" did not respond in time", registryError{err}).WithCode(fault.RegistryUnavailable)
	}
	return fault.Unavailable.New("The registry "+host+" cannot be reached", registryError{err}).After(5 * time.Second).WithCode(fault.RegistryUnavailable)
}

// A registryError is an error that a registry caused, as opposed to this process.
type registryError struct{ error }

func (e registryError) Unwrap() error { return e.error }

// A wrongAnswer is the error of a registry that has answered, but not as the specification says.
type wrongAnswer struct{ error }

func (e wrongAnswer) Unwrap() error { return e.error }

// IsOutage reports whether a fault was caused by a registry that did not answer, failed, or limits
// requests; and not by its answer for one image.
func IsOutage(e *fault.Error) bool {
	var status *statusError
	if errors.As(e, &status) {
		return busy(status.code)
	}
	return errors.As(e, new(registryError))
}

// IsRegistry reports whether a fault was caused by a registry that is unavailable or
// overloaded. Other faults of the same kinds are caused by this process.
func IsRegistry(e *fault.Error) bool {
	return (e.Kind == fault.Unavailable || e.Kind == fault.Timeout || e.Kind == fault.Exhausted) &&
		(errors.As(e, new(registryError)) || errors.As(e, new(wrongAnswer)) || errors.As(e, new(*statusError)))
}

// isTimeout reports whether err is a timeout. Requests are not retried after a timeout.
func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// isFinal reports whether a retry would return the same error.
func isFinal(err error) bool {
	var dns *net.DNSError
	return errors.As(err, new(*fault.Error)) || errors.As(err, new(*statusError)) ||
		errors.As(err, &dns) && dns.IsNotFound
}

func unexpected(host string, err error) *fault.Error {
	return fault.Unavailable.New("The registry "+host+" returned an unexpected response", wrongAnswer{err}).After(5 * time.Second).WithCode(fault.RegistryUnavailable)
}

func wrongDigest(repo Repository, want digest.Digest) error {
	return unexpected(repo.Host, fmt.Errorf("the content of %s does not have the digest %s", repo.Name, want))
}
