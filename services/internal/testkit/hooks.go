package testkit

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// A HookReceiver is a server that collects the messages of webhooks. It verifies and parses each of
// them with libraries of the specifications, and fails the test for an invalid one.
type HookReceiver struct {
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	secrets []string
	answer  http.HandlerFunc
	got     []string // type and subject of each accepted message
	calls   int
	headers http.Header
	event   event.Event
}

// NewHookReceiver starts a receiver that accepts all valid messages.
func NewHookReceiver(t *testing.T) *HookReceiver {
	t.Helper()
	r := &HookReceiver{t: t}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

// ServeHTTP implements http.Handler.
func (r *HookReceiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		r.t.Error(err)
	}
	e := r.check(body, req.Header)
	r.mu.Lock()
	r.calls++
	r.headers, r.event = req.Header, e
	answer := r.answer
	if answer == nil {
		r.got = append(r.got, strings.TrimPrefix(e.Type(), "dev.slipway.")+" "+e.Subject())
	}
	r.mu.Unlock()
	if answer != nil {
		answer(w, req)
	}
}

// check verifies and parses a message. Its time is not verified, since the clock of the sender may
// be that of a test.
func (r *HookReceiver) check(body []byte, headers http.Header) (e event.Event) {
	r.mu.Lock()
	secrets := r.secrets
	r.mu.Unlock()
	for _, secret := range secrets {
		hook, err := standardwebhooks.NewWebhook(secret)
		if err == nil {
			err = hook.VerifyIgnoringTimestamp(body, headers)
		}
		if err != nil {
			r.t.Errorf("the signature is invalid: %v", err)
		}
	}
	if err := e.UnmarshalJSON(body); err != nil {
		r.t.Errorf("%s is not a CloudEvent: %v", body, err)
	} else if err := e.Validate(); err != nil {
		r.t.Errorf("%s is not a valid CloudEvent: %v", body, err)
	}
	if bytes.Contains(body, []byte("/wt/")) {
		r.t.Errorf("the message contains the name of an image, which grants access to it: %s", body)
	}
	return e
}

// Answer sets the answer to further messages; nil accepts them.
func (r *HookReceiver) Answer(answer http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

// AnswerStatus answers further messages with a status.
func (r *HookReceiver) AnswerStatus(status int) {
	r.Answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
}

// Verify sets the secrets with each of which further messages must be signed.
func (r *HookReceiver) Verify(secrets ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secrets = secrets
}

// Secrets returns the secrets that Verify has set.
func (r *HookReceiver) Secrets() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.secrets)
}

// Got returns the type and the subject of each accepted message, such as "build.failed b_1", and
// the number of all messages.
func (r *HookReceiver) Got() (accepted []string, calls int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{}, r.got...), r.calls
}

// Last returns the last message and its headers.
func (r *HookReceiver) Last() (event.Event, http.Header) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.event, r.headers
}

// Await waits until exactly these messages have been accepted, in this order.
func (r *HookReceiver) Await(want ...string) {
	r.t.Helper()
	Until(r.t, "messages", func() error {
		got, calls := r.Got()
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("after %d calls: %s", calls, diff)
		}
		return nil
	})
}

// Differs returns an error unless these messages and no others have been accepted, each at least
// once, in any order.
func (r *HookReceiver) Differs(want ...string) error {
	got, _ := r.Got()
	slices.Sort(got)
	got, want = slices.Compact(got), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		return fmt.Errorf("it got %q, want %q", got, want)
	}
	return nil
}
