// Package enforce applies the rules of the operator (package policy) as policy_mode demands: it
// refuses what violates a rule, or only reports it. Every violation is logged and counted.
package enforce

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/policy"
)

// A Mode is a value of policy_mode.
type Mode string

// The modes.
const (
	Enforce Mode = "enforce"
	Warn    Mode = "warn"
)

// Options are the options of an Enforcer.
type Options struct {
	Rules *policy.Rules
	Mode  Mode
	// Resolve resolves the names of channels.
	Resolve policy.Resolver
	// Registries reads signatures.
	Registries Registries
	Metrics    prometheus.Registerer
	Log        *slog.Logger
	// Now returns the current time.
	Now func() time.Time
}

// An Enforcer applies rules. A nil Enforcer permits everything. It is safe for concurrent use.
type Enforcer struct {
	o          Options
	violations *prometheus.CounterVec
	signatures *signatures
}

// New returns an Enforcer.
func New(o Options) *Enforcer {
	e := &Enforcer{o: o, violations: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "slipway_policy_violations_total", Help: "Violations of the operator's rules, by rule and policy_mode. With the mode enforce, they were refused.",
	}, []string{"rule", "mode"})}
	for _, r := range policy.All() {
		e.violations.WithLabelValues(string(r), string(o.Mode))
	}
	e.signatures = newSignatures(o.Registries)
	o.Metrics.MustRegister(e.violations, e.signatures.pool)
	return e
}

// Apply counts and logs violations. If they are refused, it returns fault.Denied for the first one;
// otherwise it adds them to the notes of ctx.
func (e *Enforcer) Apply(ctx context.Context, violations []policy.Violation) error {
	if e == nil || len(violations) == 0 {
		return nil
	}
	notes := notesFrom(ctx)
	for _, v := range violations {
		if !notes.add(v.Text) {
			continue // the same request has reported it
		}
		e.violations.WithLabelValues(string(v.Rule), string(e.o.Mode)).Inc()
		e.o.Log.InfoContext(ctx, "A rule of the operator is violated", "rule", v.Rule, "mode", e.o.Mode, "violation", v.Text)
	}
	if e.o.Mode == Warn {
		return nil
	}
	return fault.Denied.New(violations[0].Text, nil).WithCode(violations[0].Rule.Code())
}

// IsRefusal reports whether an error is that of a violation.
func IsRefusal(err error) bool {
	f, ok := fault.As(err)
	return ok && f.Kind == fault.Denied && strings.HasPrefix(string(f.Code), "policy.")
}

// Image applies policy_registries to an image.
func (e *Enforcer) Image(ctx context.Context, field string, image oci.Reference) error {
	if e == nil {
		return nil
	}
	return e.Apply(ctx, e.o.Rules.Image(field, image))
}

// Channels applies policy_channels to names or URLs of channels.
func (e *Enforcer) Channels(ctx context.Context, field string, channels []string) error {
	if e == nil {
		return nil
	}
	return e.Apply(ctx, e.o.Rules.Channels(field, channels, e.o.Resolve))
}

// NeedsPackages reports whether Packages must be called before an image of packages is served. isLock
// reports whether they are those of a lock in a request.
func (e *Enforcer) NeedsPackages(isLock bool) bool {
	return e != nil && e.o.Rules.HasPackages(isLock, e.o.Mode == Enforce)
}

// Packages applies the rules about packages.
func (e *Enforcer) Packages(ctx context.Context, field string, packages []policy.Package) error {
	if e == nil {
		return nil
	}
	return e.Apply(ctx, e.o.Rules.Packages(field, packages, e.o.Now(), e.o.Resolve))
}

// Steps applies the rules to packages that are installed in build steps. channels are those of the
// request, and isLock reports whether the packages are those of a lock.
func (e *Enforcer) Steps(ctx context.Context, field string, channels []string, isLock bool) error {
	if e == nil {
		return nil
	}
	return e.Apply(ctx, e.o.Rules.Steps(field, channels, isLock, e.o.Resolve))
}

// Permits reports whether Packages would refuse nothing.
func (e *Enforcer) Permits(packages []policy.Package) bool {
	return e == nil || e.o.Mode == Warn || len(e.o.Rules.Packages("", packages, e.o.Now(), e.o.Resolve)) == 0
}

// Conflict counts a conflict that conda_min_age has caused.
func (e *Enforcer) Conflict(ctx context.Context, text string) {
	if e != nil && e.o.Mode == Enforce {
		_ = e.Apply(ctx, []policy.Violation{{Rule: policy.Age, Text: text}}) // the conflict is the error
	}
}

// Notes are the violations of one request that are not refused. It is safe for concurrent use.
type Notes struct {
	mu   sync.Mutex
	all  []string
	more int
}

type notesKey struct{}

// WithNotes returns a context for one request, which collects violations.
func WithNotes(ctx context.Context) (context.Context, *Notes) {
	n := &Notes{}
	return context.WithValue(ctx, notesKey{}, n), n
}

func notesFrom(ctx context.Context) *Notes {
	n, _ := ctx.Value(notesKey{}).(*Notes)
	return n
}

// add reports whether the text is new.
func (n *Notes) add(text string) bool {
	if n == nil {
		return true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.Contains(n.all, text) {
		return false
	}
	if len(n.all) == limits.PolicyNotes {
		n.more++
		return true
	}
	n.all = append(n.all, text)
	return true
}

// Texts returns the violations as sentences for the caller.
func (n *Notes) Texts() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.all) == 0 {
		return nil
	}
	out := []string{"This server's rules are not satisfied, which will be an error when its operator enforces them"}
	out = append(out, n.all...)
	if n.more > 0 {
		out = append(out, "There are further violations")
	}
	return out
}
