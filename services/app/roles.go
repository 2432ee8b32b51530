package app

import (
	"fmt"
	"slices"
	"strings"

	"slipway.dev/services/internal/config"
)

// need is what a role has to have in its process.
type need struct {
	sql, redis, bus bool
	// hears is what can do without the bus: it learns of changes a minute later then.
	hears bool
	// rooms are the roles it calls; the rooms build, conda and metrics may be missing:
	// then nothing is built, no package is found, or no counts are shown. So may the
	// platform for the role metrics: then its administrator is not known there.
	rooms []string
}

// role is a part that a process can play.
type role struct {
	name  string
	need  need
	build func(*App) error
}

// roles is the table of everything a process can play, callees first.
func roles() []role {
	return []role{
		{"platform", need{sql: true, redis: true, hears: true}, (*App).buildPlatform},
		{"build", need{sql: true, redis: true, bus: true, rooms: []string{"platform"}}, (*App).buildBuild},
		{"builder", need{bus: true, rooms: []string{"build"}}, (*App).buildBuilder},
		{"conda", need{redis: true, hears: true, rooms: []string{"platform", "build"}}, (*App).buildConda},
		{"container", need{sql: true, redis: true, bus: true, rooms: []string{"platform", "build", "conda"}}, (*App).buildContainer},
		{"inspect", need{redis: true, hears: true, rooms: []string{"platform", "container"}}, (*App).buildInspect},
		{"registry", need{redis: true, bus: true, rooms: []string{"container", "platform", "build"}}, (*App).buildRegistry},
		{"metrics", need{sql: true, bus: true, rooms: []string{"platform"}}, (*App).buildMetrics},
		{"gateway", need{rooms: []string{"container", "inspect", "build", "conda", "metrics"}}, (*App).buildGateway},
	}
}

// Names lists all roles.
func Names() []string {
	var names []string
	for _, r := range roles() {
		names = append(names, r.name)
	}
	return names
}

// choose picks roles by name; no name is all of them.
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

// addressOf is where another process plays a room; "" is nowhere.
func addressOf(c config.Config, room string) string {
	switch room {
	case "build":
		return c.BuildAddr
	case "conda":
		return c.CondaAddr
	case "container":
		return c.ContainerAddr
	case "inspect":
		return c.InspectAddr
	case "metrics":
		return c.MetricsAddr
	case "platform":
		return c.PlatformAddr
	}
	return ""
}

// spare says whether a role can do without a room.
func spare(role, room string) bool {
	return role == "metrics" || room == "metrics" || room == "conda" || room == "build" && role != "builder" || room == "container" && role == "inspect"
}

// shape checks that the chosen roles and the settings make a whole: a process
// that plays only some roles shares its database, Redis and NATS with others.
func shape(c config.Config, chosen []role) error {
	if len(chosen) == len(roles()) {
		return nil
	}
	playing := func(room string) bool {
		return slices.ContainsFunc(chosen, func(r role) bool { return r.name == room })
	}
	var problems []string
	for _, r := range chosen {
		for _, room := range r.need.rooms {
			if !playing(room) && addressOf(c, room) == "" && !spare(r.name, room) {
				problems = append(problems, fmt.Sprintf("the role %s calls the role %s: set %s_addr, or play it here too", r.name, room, room))
			}
		}
		for _, key := range r.unshared(c) {
			problems = append(problems, fmt.Sprintf("the role %s shares its data with other processes: set %s", r.name, key))
		}
	}
	if playing("platform") && c.AdminTokenFile == "" {
		problems = append(problems, "the role platform needs admin_token_file when it does not play all roles")
	}
	if !config.IsLoopback(c.GRPCAddr) && c.RPCCertFile == "" && c.RPCSecretFile == "" {
		problems = append(problems, "grpc_addr is reachable from outside: set rpc_cert_file (with rpc_key_file, rpc_ca_file) or rpc_secret_file")
	}
	if len(problems) > 0 {
		slices.Sort(problems)
		return fmt.Errorf("%s", strings.Join(slices.Compact(problems), "\n"))
	}
	return nil
}

// unshared are the settings of servers that a role needs, and that are not set.
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
