package rpc

import (
	"context"
	"path"
	"slices"
	"strings"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"slipway.dev/services/internal/fault"
)

// A Rule allows roles of the program to make calls.
type Rule struct {
	// Roles are the allowed roles, as named by `slipwayd serve ROLE`.
	Roles []string
	// Calls are the full names of the calls: the generated …_FullMethodName constants.
	Calls []string
	// Scope is the scope that the access token of the user behind a call needs. If it is "",
	// tokens with scopes are rejected wherever the service authenticates the user.
	Scope Scope
}

// Callers is a service's table of the roles that may make its calls. A call without a rule
// is denied for all callers.
type Callers []Rule

// Roles returns the roles that may make a call, or nil if no rule lists it.
func (c Callers) Roles(call string) []string {
	var roles []string
	for _, rule := range c {
		if slices.Contains(rule.Calls, call) {
			roles = append(roles, rule.Roles...)
		}
	}
	return roles
}

// Allow adds a service's rules. It must be called before Serve.
func (s *Server) Allow(c Callers) {
	for _, rule := range c {
		for _, call := range rule.Calls {
			s.callers[call] = append(s.callers[call], rule.Roles...)
			s.scopes[call] = rule.Scope
		}
	}
}

// A Guard decides whether the user behind a call may make it, and returns the context for
// the service's handler. req is the request. It is nil if the client sends a stream,
// because the guard then decides before the first message.
type Guard func(ctx context.Context, call string, req any) (context.Context, error)

// Guard installs a guard for all calls, unary and streaming, of the service with the given
// full name. It must be called before Serve.
func (s *Server) Guard(service string, check Guard) {
	s.guards["/"+service] = check
}

// guard returns the guard of a call's service. Services without a guard accept all calls.
func (s *Server) guard(call string) Guard {
	if check, ok := s.guards[path.Dir(call)]; ok {
		return check
	}
	return func(ctx context.Context, _ string, _ any) (context.Context, error) { return ctx, nil }
}

// authorize returns fault.Denied unless a rule allows the call for a role of the calling
// process. Health checks are always allowed, because probes have no role.
func (s *Server) authorize(ctx context.Context, call string) error {
	if isHealth(call) {
		return nil
	}
	allowed, roles := s.callers[call], RolesFrom(ctx)
	if slices.ContainsFunc(roles, func(role string) bool { return slices.Contains(allowed, role) }) {
		return nil
	}
	s.o.Log.WarnContext(ctx, "A call was denied: no role of the caller may make it",
		"rpc", call, "roles", roles, "may", allowed, "request_id", CallFrom(ctx).RequestID)
	if len(allowed) == 0 {
		return fault.Denied.Newf("No role may make this call")
	}
	return fault.Denied.Newf("This call is allowed for the roles %s, and the caller has none of them (with mTLS its certificate must have the URI %sROLE)",
		strings.Join(allowed, ", "), roleURI)
}

func isHealth(call string) bool {
	return call == healthv1.Health_Check_FullMethodName || call == healthv1.Health_Watch_FullMethodName
}
