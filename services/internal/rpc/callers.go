package rpc

import (
	"context"
	"path"
	"slices"
	"strings"

	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"slipway.dev/services/internal/fault"
)

// Rule lets roles of the program make calls.
type Rule struct {
	// Roles that may make the calls, as `slipwayd serve ROLE` names them.
	Roles []string
	// Calls by their full names: the generated …_FullMethodName.
	Calls []string
}

// Callers is a room's table of who may make which of its calls. A call that no
// rule lists is refused, whoever makes it.
type Callers []Rule

// Roles are those that may make a call; none when no rule lists it.
func (c Callers) Roles(call string) []string {
	var roles []string
	for _, rule := range c {
		if slices.Contains(rule.Calls, call) {
			roles = append(roles, rule.Roles...)
		}
	}
	return roles
}

// Allow adds a room's rules. It is called where the room's services are
// registered, before Serve.
func (s *Server) Allow(c Callers) {
	for _, rule := range c {
		for _, call := range rule.Calls {
			s.callers[call] = append(s.callers[call], rule.Roles...)
		}
	}
}

// Guard puts a room's own check before every call of one of its services, by the
// service's full name: who the person behind it is, and whether they may. It is called
// where the service is registered, before Serve.
func (s *Server) Guard(service string, check grpc.UnaryServerInterceptor) {
	s.guards["/"+service] = check
}

// guarded makes a call, past the guard of its service.
func (s *Server) guarded(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if check, ok := s.guards[path.Dir(info.FullMethod)]; ok {
		return check(ctx, req, info, next)
	}
	return next(ctx, req)
}

// authorize is fault.Denied unless a rule lets a role of the calling process make
// the call. Health is for everybody who can connect: probes play no role.
func (s *Server) authorize(ctx context.Context, call string) error {
	if isHealth(call) {
		return nil
	}
	may, plays := s.callers[call], RolesFrom(ctx)
	if slices.ContainsFunc(plays, func(role string) bool { return slices.Contains(may, role) }) {
		return nil
	}
	s.o.Log.WarnContext(ctx, "A call was refused: no role of the caller may make it",
		"rpc", call, "roles", plays, "may", may, "request_id", CallFrom(ctx).RequestID)
	if len(may) == 0 {
		return fault.Denied.Newf("No role may make this call")
	}
	return fault.Denied.Newf("This call is for the roles %s, and the caller shows none of them (over mTLS its certificate must name it: %sROLE)",
		strings.Join(may, ", "), roleURI)
}

func isHealth(call string) bool {
	return call == healthv1.Health_Check_FullMethodName || call == healthv1.Health_Watch_FullMethodName
}
