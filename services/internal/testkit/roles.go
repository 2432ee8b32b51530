package testkit

import "slipway.dev/services/internal/rpc"

// AllowRoles allows roles to call every method of the services on a server. It is for fake
// services without a table of callers.
func AllowRoles(s *rpc.Server, roles ...string) {
	rule := rpc.Rule{Roles: roles}
	for service, info := range s.GetServiceInfo() {
		for _, m := range info.Methods {
			rule.Calls = append(rule.Calls, "/"+service+"/"+m.Name)
		}
	}
	s.Allow(rpc.Callers{rule})
}
