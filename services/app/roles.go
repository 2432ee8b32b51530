package app

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/rpc"
)

// requirements lists the stores that a role requires in its process.
type requirements struct {
	sql, redis, bus bool
	// optionalBus is set for roles that use the bus only if nats_url is set. Without the bus they
	// learn of changes up to a minute later.
	optionalBus bool
}

// A callee is a role that another role calls.
type callee struct {
	name string
	kind calleeKind
}

// A calleeKind is how a role depends on another role.
type calleeKind int

const (
	// needed is a role that must be configured and reachable before the caller is ready.
	needed calleeKind = iota
	// ifSet is a role that may be missing. Where it is configured, it must be reachable
	// before the caller is ready.
	ifSet
	// reported is a role that may be missing or unreachable; its state is only reported.
	reported
)

// A role is a part that a process can play.
type role struct {
	name string
	// addr returns the address of another process that plays the role; nil for a role
	// without a gRPC service.
	addr  func(config.Config) string
	need  requirements
	calls []callee
	start func(context.Context, *env) (parts, error)
}

// parts is what a role, or a store that it needs, adds to its process. Nil fields add nothing.
type parts struct {
	// register registers the role's gRPC service with a server of the process.
	register func(*rpc.Server)
	// run lists what runs until the process stops.
	run []func(context.Context) error
	// jobs runs jobs. It ends before everything else of the process, which jobs may use.
	jobs func(context.Context) error
	// drain is called when the process begins to stop.
	drain func()
	// jobsEnded is called when a process with all roles stops and its jobs have ended.
	jobsEnded func()
	// rest serves the container API and the web page, platform the platform's API, and
	// pulls everything below /v2/.
	rest, platform, pulls http.Handler
	checks                []check
	// problems are messages for the person who started the process.
	problems []string
	// builds reports whether this process can build Dockerfiles.
	builds bool
	// firstToken is the access token that this start created for the first user.
	firstToken string
}

// roles returns the table of all roles, callees first. Code that needs all roles, their
// addresses or their dependencies reads this table.
func roles() []role {
	return []role{
		{
			name: "platform", addr: func(c config.Config) string { return c.PlatformAddr },
			need: requirements{sql: true, redis: true, optionalBus: true}, start: startPlatform,
		},
		{
			name: "build", addr: func(c config.Config) string { return c.BuildAddr },
			need: requirements{sql: true, redis: true, bus: true}, start: startBuild,
			calls: []callee{{"platform", needed}},
		},
		{
			name: "builder",
			need: requirements{bus: true}, start: startBuilder,
			calls: []callee{{"build", needed}, {"container", ifSet}},
		},
		{
			name: "conda", addr: func(c config.Config) string { return c.CondaAddr },
			need: requirements{redis: true, optionalBus: true}, start: startConda,
			calls: []callee{{"platform", needed}, {"build", reported}},
		},
		{
			name: "container", addr: func(c config.Config) string { return c.ContainerAddr },
			need: requirements{sql: true, redis: true, bus: true}, start: startContainer,
			calls: []callee{{"platform", needed}, {"build", ifSet}, {"conda", reported}, {"inspect", reported}},
		},
		{
			name: "inspect", addr: func(c config.Config) string { return c.InspectAddr },
			need: requirements{redis: true, optionalBus: true}, start: startInspect,
			calls: []callee{{"platform", needed}, {"container", ifSet}},
		},
		{
			name: "registry",
			need: requirements{redis: true, bus: true}, start: startRegistry,
			calls: []callee{{"platform", needed}, {"container", needed}, {"build", ifSet}},
		},
		{
			name: "metrics", addr: func(c config.Config) string { return c.MetricsAddr },
			need: requirements{sql: true, bus: true}, start: startMetrics,
			calls: []callee{{"platform", ifSet}},
		},
		{
			name: "gateway", start: startGateway,
			calls: []callee{
				{"container", needed}, {"inspect", needed}, {"platform", ifSet}, {"build", ifSet}, {"conda", reported}, {"metrics", reported},
			},
		},
	}
}

// dependence returns how the roles of a process depend on another role: the strongest kind
// of all their rows. ok is false if no role calls it.
func dependence(playing []role, name string) (kind calleeKind, ok bool) {
	kind = reported
	for _, r := range playing {
		for _, c := range r.calls {
			if c.name == name {
				kind, ok = min(kind, c.kind), true
			}
		}
	}
	return kind, ok
}

// isService reports whether the role offers a gRPC service.
func (r role) isService() bool { return r.addr != nil }

// at returns the address of another process that plays the role; "" if none does.
func (r role) at(c config.Config) string {
	if r.addr == nil {
		return ""
	}
	return r.addr(c)
}

// Names lists all roles.
func Names() []string {
	var names []string
	for _, r := range roles() {
		names = append(names, r.name)
	}
	return names
}

// choose returns the roles with these names; all roles if names is empty.
func choose(names []string) ([]role, error) {
	if len(names) == 0 {
		return roles(), nil
	}
	for _, n := range names {
		if !slices.Contains(Names(), n) {
			return nil, fmt.Errorf("there is no role %q; the roles are %s", n, strings.Join(Names(), ", "))
		}
	}
	return slices.DeleteFunc(roles(), func(r role) bool { return !slices.Contains(names, r.name) }), nil
}

// checkRoles checks that the settings suffice for the chosen roles: a process that plays only some
// roles must share its database, Redis and NATS with others.
func checkRoles(c config.Config, chosen []role) error {
	if len(chosen) == len(roles()) {
		return nil
	}
	playing := func(name string) bool {
		return slices.ContainsFunc(chosen, func(r role) bool { return r.name == name })
	}
	at := map[string]string{}
	for _, r := range roles() {
		at[r.name] = r.at(c)
	}
	var problems []string
	for _, r := range chosen {
		for _, c := range r.calls {
			if c.kind == needed && !playing(c.name) && at[c.name] == "" {
				problems = append(problems, fmt.Sprintf("the role %s calls the role %s: set %s_addr, or play it here too", r.name, c.name, c.name))
			}
		}
		for _, key := range r.unshared(c) {
			problems = append(problems, fmt.Sprintf("the role %s shares its data with other processes: set %s", r.name, key))
		}
	}
	if playing("platform") && c.AdminTokenFile == "" {
		problems = append(problems, "the role platform needs admin_token_file when it does not play all roles")
	}
	if c.RPCCertFile == "" && c.RPCSecretFile == "" {
		problems = append(problems, beyond(c)...)
	}
	if len(problems) > 0 {
		slices.Sort(problems)
		return fmt.Errorf("%s", strings.Join(slices.Compact(problems), "\n"))
	}
	return nil
}

// beyond returns the problems of addresses on other machines, which do not have the secret in
// data_dir.
func beyond(c config.Config) []string {
	const remedy = "set rpc_cert_file (with rpc_key_file, rpc_ca_file) or rpc_secret_file"
	var problems []string
	if !config.IsLoopback(c.GRPCAddr) {
		problems = append(problems, "grpc_addr is reachable from other machines: "+remedy)
	}
	for _, r := range roles() {
		if addr := strings.TrimPrefix(r.at(c), "dns:///"); addr != "" && !config.IsLoopback(addr) {
			problems = append(problems, fmt.Sprintf("%s_addr is on another machine: %s", r.name, remedy))
		}
	}
	return problems
}

// unshared returns the settings that are not set of servers that a role needs.
func (r role) unshared(c config.Config) []string {
	var keys []string
	for _, server := range []struct {
		needed   bool
		key, url string
	}{
		{r.need.sql, "database_url", c.DatabaseURL}, {r.need.redis, "redis_url", c.RedisURL}, {r.need.bus, "nats_url", c.NATSURL},
	} {
		if server.needed && server.url == "" {
			keys = append(keys, server.key)
		}
	}
	return keys
}
