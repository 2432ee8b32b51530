package webhooks

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

const (
	// lookInterval is how often to look for deliveries that are due, or that another replica has
	// added.
	lookInterval = 2 * time.Second
	// lease is how long a replica has a delivery. It is longer than an attempt.
	lease = limits.WebhookTime + 45*time.Second
	// turn is how many messages a webhook gets before others have their turn.
	turn = 20
)

// slots counts the concurrent attempts of this process, by webhook and by creator.
type slots struct {
	mu    sync.Mutex
	all   int
	users map[int64]int // by the creator of the webhook
	hooks map[string]bool
}

func newSlots() slots { return slots{users: map[int64]int{}, hooks: map[string]bool{}} }

// take returns false if a webhook is busy, or if there are too many attempts.
func (s *slots) take(h dueHook) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hooks[h.id] || s.all >= limits.WebhooksAtOnce || s.users[h.createdBy] >= limits.WebhooksAtOnceUser {
		return false
	}
	s.all++
	s.users[h.createdBy]++
	s.hooks[h.id] = true
	return true
}

func (s *slots) release(h dueHook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	delete(s.hooks, h.id)
	if s.users[h.createdBy]--; s.users[h.createdBy] == 0 {
		delete(s.users, h.createdBy)
	}
}

// send sends the deliveries that are due until ctx ends, and waits for its attempts.
func (s *Service) send(ctx context.Context) {
	var attempts sync.WaitGroup
	defer attempts.Wait()
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	for {
		hooks, err := s.store.dueHooks(ctx, s.deps.Now())
		switch {
		case err != nil:
			s.sending.Failed(ctx, err)
		case len(hooks) == 0: // otherwise sendTo reports it
			s.sending.Succeeded(ctx)
		}
		for _, h := range hooks {
			if s.slots.take(h) {
				attempts.Go(func() {
					sent := s.sendTo(ctx, h)
					s.slots.release(h)
					if sent {
						s.wake() // more may be due
					}
				})
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-s.added:
		case <-look.C:
		}
	}
}

// sendTo sends the deliveries of a webhook that are due, one after another, at most turn of them
// and until one fails. It returns false if nothing was sent.
func (s *Service) sendTo(ctx context.Context, due dueHook) (sent bool) {
	for range turn {
		h, d, err := s.store.claim(ctx, due.id, s.deps.Now(), s.deps.Now().Add(lease))
		if err != nil {
			s.sending.Failed(ctx, err, "webhook", due.id)
			return sent
		}
		s.sending.Succeeded(ctx)
		if d.id == "" {
			return sent
		}
		begun := s.deps.Now()
		a := s.attempt(ctx, h, d, begun)
		a.begun, a.took = begun, s.deps.Now().Sub(begun)
		if !a.isAborted {
			s.attempts.WithLabelValues(a.result()).Inc()
		}
		if err := s.finish(ctx, h, d, a); err != nil {
			s.deps.Log.WarnContext(ctx, "The result of a message to a webhook was not stored; it is sent again", "webhook", h.id, "delivery", d.id, "err", err)
			return false
		}
		if sent = true; a.problem != "" {
			break
		}
	}
	return sent
}

// An attempt is the result of sending a message once.
type attempt struct {
	begun    time.Time
	took     time.Duration
	response int    // HTTP status; 0: none
	problem  string // "": the receiver has accepted the message
	// retryAfter is the pause that the receiver demands; 0: none.
	retryAfter time.Duration
	// isGone states that the receiver wants no more messages.
	isGone bool
	// isAborted states that this process stops, so that the attempt does not count.
	isAborted bool
}

// attempt sends a message once.
func (s *Service) attempt(ctx context.Context, h hook, d delivery, at time.Time) attempt {
	secrets, err := open(s.deps.Keys, h, at)
	if err != nil {
		s.deps.Log.ErrorContext(ctx, "The secret of a webhook cannot be decrypted", "webhook", h.id, "err", err)
		return attempt{problem: "The secret of the webhook cannot be decrypted; the operator's log has the reason"}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, strings.NewReader(d.body))
	if err != nil {
		return attempt{problem: "The URL is invalid"}
	}
	req.Header.Set("Content-Type", "application/cloudevents+json; charset=utf-8")
	req.Header.Set("User-Agent", "slipway/"+s.deps.Version)
	req.Header["webhook-id"] = []string{d.id} // in lower case, as in the specification
	req.Header["webhook-timestamp"] = []string{strconv.FormatInt(at.Unix(), 10)}
	req.Header["webhook-signature"] = []string{signature(secrets, d.id, at, d.body)}
	resp, err := s.client.Do(req)
	if err != nil {
		s.deps.Log.InfoContext(ctx, "A message to a webhook failed", "webhook", h.id, "delivery", d.id, "err", fault.Quote(withoutURL(err).Error())) // the receiver may have sent it
		return attempt{problem: problemOf(err), isAborted: ctx.Err() != nil}
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusOK { // otherwise the body is the connection, which has no timeout
		_, _ = io.CopyN(io.Discard, resp.Body, limits.WebhookResponse) // so that the connection can be used again
	}
	return attemptOf(resp, at)
}

// attemptOf returns the result of an attempt with a response.
func attemptOf(resp *http.Response, now time.Time) attempt {
	a := attempt{response: resp.StatusCode, isGone: resp.StatusCode == http.StatusGone}
	switch resp.StatusCode / 100 {
	case 2:
		return a
	case 3:
		a.problem = fmt.Sprintf("The receiver redirects (%s); redirects are not followed, so change the URL of the webhook", statusText(resp.StatusCode))
	default:
		a.problem = "The receiver rejected the message: " + statusText(resp.StatusCode)
	}
	if after := resp.Header.Get("Retry-After"); after != "" {
		if seconds, err := strconv.Atoi(after); err == nil {
			a.retryAfter = time.Duration(min(max(seconds, 0), int(limits.WebhookPause/time.Second))) * time.Second
		} else if at, err := http.ParseTime(after); err == nil {
			a.retryAfter = min(max(at.Sub(now), 0), limits.WebhookPause)
		}
	}
	return a
}

func statusText(code int) string {
	return strings.TrimSpace(strconv.Itoa(code) + " " + http.StatusText(code))
}

// problemOf returns a sentence about an attempt without a response. It contains neither the URL,
// which may be a secret, nor what the receiver sent.
func problemOf(err error) string {
	var dns *net.DNSError
	var timeout net.Error
	if f, ok := fault.As(err); ok {
		return f.Public
	}
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "The host name of the URL does not exist"
	case errors.As(err, &dns):
		return "The host name of the URL cannot be resolved right now"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "The receiver did not respond in time"
	}
	switch certificate := new(tls.CertificateVerificationError); {
	case errors.As(err, &certificate):
		return "The certificate of the receiver is not trusted, or is not for the host of the URL"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "The receiver refuses connections"
	}
	return "The receiver cannot be reached, or does not respond as an HTTP server"
}

// withoutURL returns the cause of an error of http.Client, without the URL.
func withoutURL(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// pause returns the pause after a number of failed attempts.
func pause(attempts int) time.Duration {
	pauses := []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute}
	if attempts > len(pauses) {
		return limits.WebhookPause
	}
	return pauses[attempts-1]
}

// finish stores the result of an attempt.
func (s *Service) finish(ctx context.Context, h hook, d delivery, a attempt) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	first := d.first
	if first.IsZero() {
		first = a.begun
	}
	now := s.deps.Now()
	next, others := now.Add(max(pause(d.attempts+1), a.retryAfter)), now.Add(max(pause(h.failures+1), a.retryAfter))
	isOver := !a.begun.Before(first.Add(limits.WebhookRetryPeriod))
	switch {
	case a.isAborted:
		return s.store.release(ctx, d.id)
	case a.problem == "":
		return s.store.delivered(ctx, h, d.id, a, now)
	case !a.isGone && !isOver:
		return s.store.failed(ctx, h, d.id, a, next, others)
	case !a.isGone && (h.failing.IsZero() || h.failing.After(first)): // others were accepted
		return s.store.failed(ctx, h, d.id, a, time.Time{}, now)
	}
	reason := a.problem
	if !a.isGone {
		reason = fmt.Sprintf("No message was accepted for %d hours: %s", limits.WebhookRetryPeriod/time.Hour, a.problem)
	}
	if err := s.store.failed(ctx, h, d.id, a, next, others); err != nil {
		return err
	}
	return s.disable(ctx, h, reason)
}
