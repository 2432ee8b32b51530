// Package rooms is the table of what each part of the program may import. Its
// test holds the real imports against it: a new arrow is an edit of this table,
// and is seen in review.
package rooms

import "slices"

// Ours is the prefix of our own modules.
const Ours = "slipway.dev/"

// Rule is what one package, or one folder of packages, may import of ours, and
// which libraries it must not touch.
type Rule struct {
	// Package is an import path below Ours; one that ends in "/..." is a folder.
	Package string
	// May lists what it may import of ours, in the same form. Nothing else.
	May []string
	// Only, where set, lists the only libraries it may import beside the standard
	// one.
	Only []string
	// Never lists libraries it must not import.
	Never []string
}

// Libraries that belong to few rooms.
const (
	sql      = "database/sql"
	redis    = "github.com/redis/go-redis/..."
	buildkit = "github.com/moby/buildkit/..."
	sqlRoom  = "services/internal/sqldb"
)

// What rooms say to each other on the bus, for those at its two ends.
const (
	buildBus   = "services/internal/bus/buildbus"
	metricsBus = "services/internal/bus/metricsbus"
)

// plumbing is what every room may stand on.
func plumbing() []string {
	return []string{
		"proto/gen/...", "services/internal/bounded", "services/internal/bus", "services/internal/caller", "services/internal/fault",
		"services/internal/htpasswd", "services/internal/httprecord", "services/internal/kv", "services/internal/limits", "services/internal/memo", "services/internal/oci", "services/internal/paging", "services/internal/ratelimit", "services/internal/retry", "services/internal/rpc", "services/internal/upstream",
	}
}

// Rules are looked through in order; the first whose Package fits holds.
func Rules() []Rule {
	rooms := append(plumbing(), sqlRoom)
	return slices.Concat(builderRules(), clientRules(), benchRules(), []Rule{
		{Package: "proto/gen/...", May: []string{"proto/gen/..."}},
		{Package: "gateway/contract"},
		{Package: "gateway/contracttest"},
		{Package: "gateway/openapi", May: []string{"gateway/contracttest", "proto/gen/..."}},
		{Package: "gateway", May: []string{"proto/gen/..."}, Never: []string{sql, redis}},

		{Package: "services/internal/fault", Only: []string{"google.golang.org/..."}},
		{Package: "services/internal/limits", Only: []string{"fmt"}},
		{Package: "services/internal/bounded", Only: []string{}},
		{Package: "services/internal/retry", Only: []string{}},
		{Package: "services/internal/lifetime", Only: []string{}},
		{Package: "services/internal/layertar", Only: []string{"github.com/klauspost/compress/..."}},
		{Package: "services/internal/memo", Only: []string{"github.com/maypok86/otter/..."}},
		{Package: "services/internal/oci", May: []string{"proto/gen/slipway/container/v1", "services/internal/bounded", "services/internal/fault", "services/internal/limits"}, Only: []string{
			"github.com/containerd/platforms", "github.com/distribution/reference", "github.com/opencontainers/go-digest", "github.com/opencontainers/image-spec/...",
		}},
		{Package: "services/internal/caller", May: []string{
			"proto/gen/...", "services/internal/fault", "services/internal/limits", "services/internal/oci", "services/internal/rpc", "services/internal/upstream",
		}},
		{Package: metricsBus, May: []string{"proto/gen/...", "services/internal/bus"}, Never: []string{buildkit, sql, redis}},
		{Package: "services/internal/rpc", May: []string{"proto/gen/...", "services/internal/..."}, Never: []string{buildkit}},
		{Package: "services/internal/testkit", May: []string{"proto/gen/...", "services/internal/..."}},
		// The nouns of Conda do no I/O.
		{Package: "services/internal/conda", May: []string{"services/internal/fault", "services/internal/limits"}, Only: []string{"github.com/goccy/go-yaml/..."}},
		{Package: "services/internal/...", May: []string{"services/internal/..."}, Never: []string{buildkit}},

		// What the platform's nouns share, below all of them.
		{Package: "services/platform/api", May: []string{"services/internal/fault", "services/internal/paging", sqlRoom}, Only: []string{"google.golang.org/protobuf/..."}},
		{Package: "services/platform/vault", May: []string{"services/internal/fault", sqlRoom}, Only: []string{}},
		{Package: "services/platform/audit", May: []string{"services/internal/rpc", sqlRoom, "services/platform/api"}, Only: []string{}},
		// One schema: its tables refer to each other. The nouns' tests make their tables.
		{Package: "services/platform/migrations", Only: []string{}},
		{Package: "services/platform/identity", May: append(slices.Clone(rooms), "services/platform/api", "services/platform/migrations", "services/platform/vault"), Never: []string{buildkit}},
		// Members and participants are users.
		{Package: "services/platform/orgs", May: append(slices.Clone(rooms), "services/platform/api", "services/platform/identity"), Never: []string{buildkit}},
		// A run is kept in a workspace, by who may report it.
		{Package: "services/platform/runs", May: append(slices.Clone(rooms), "services/platform/api", "services/platform/orgs"), Never: []string{buildkit}},
		// A login is kept in a workspace, and used as its role allows.
		{Package: "services/platform/credentials", May: append(slices.Clone(rooms), "services/platform/api", "services/platform/audit", "services/platform/identity", "services/platform/orgs", "services/platform/vault"), Never: []string{buildkit}},
		// What another platform keeps is a login as ours are.
		{Package: "services/platform/federation", May: append(slices.Clone(rooms), "services/platform/api", "services/platform/audit", "services/platform/credentials", "services/platform/identity", "services/platform/orgs", "services/platform/vault"), Never: []string{buildkit}},
		// The thin service knows every noun.
		{Package: "services/platform", May: append(slices.Clone(rooms), "services/platform/..."), Never: []string{buildkit}},
		{Package: "services/build/migrations", Only: []string{}},
		{Package: "services/build/engine", May: []string{"proto/gen/...", "services/internal/oci"}, Only: []string{}},
		{Package: "services/build/store", May: []string{
			"proto/gen/...", "services/build/engine", "services/build/migrations", "services/internal/caller", "services/internal/fault", "services/internal/limits", sqlRoom,
		}, Never: []string{buildkit}},
		{Package: "services/build/workers", May: []string{"proto/gen/...", "services/build/engine", "services/internal/fault"}, Only: []string{"google.golang.org/protobuf/..."}},
		{Package: "services/build/logs", May: []string{
			"proto/gen/...", "services/build/store", "services/internal/bus", buildBus, "services/internal/fault", "services/internal/limits", "services/internal/retry",
		}, Never: []string{buildkit, sql, redis}},
		{Package: "services/build/queue", May: []string{
			"proto/gen/...", "services/build/engine", "services/build/logs", "services/build/store", "services/build/workers", "services/internal/bus", buildBus,
		}, Never: []string{buildkit, sql, redis}},
		{Package: "services/build/estimate", May: []string{"services/build/engine", "services/build/store", "services/build/workers"}, Only: []string{}},
		{Package: "services/build", May: append(slices.Clone(rooms), buildBus, metricsBus, "services/build/...", "services/internal/conda"), Never: []string{buildkit}},
		{Package: "services/container/migrations", Only: []string{}},
		{Package: "services/container", May: append(slices.Clone(rooms), "services/container/..."), Never: []string{buildkit}},
		{Package: "services/container/tokens", May: []string{"proto/gen/slipway/container/v1"}, Never: []string{sql}},
		{Package: "services/container/store", May: []string{
			"proto/gen/...", "services/container/tokens", "services/internal/fault", "services/internal/limits", sqlRoom,
		}, Never: []string{redis}},
		{Package: "services/container/request", May: []string{
			"proto/gen/...", "services/container/conda", "services/container/dockerfile", "services/internal/caller", "services/internal/fault",
			"services/internal/limits", "services/internal/oci",
		}, Never: []string{sql, redis}},
		{Package: "services/container/layers", May: []string{
			"proto/gen/...", "services/container/request", "services/internal/fault", "services/internal/limits", "services/internal/memo",
			"services/internal/rpc", "services/internal/upstream",
		}, Never: []string{sql, redis}},
		{Package: "services/container/sources", May: []string{
			"proto/gen/...", "services/internal/caller", "services/internal/fault", "services/internal/memo", "services/internal/oci", "services/internal/upstream",
		}, Never: []string{sql, redis}},
		{Package: "services/container/conda", May: []string{"proto/gen/...", "services/internal/conda", "services/internal/fault", "services/internal/oci"}, Only: []string{
			"github.com/goccy/go-yaml/...",
		}},
		// What we read of a Dockerfile is what the engine reads: the packages of BuildKit
		// that are pure, which do no I/O.
		{Package: "services/container/dockerfile", May: []string{"services/internal/fault", "services/internal/limits", "services/internal/oci"}, Only: []string{
			"github.com/moby/buildkit/frontend/dockerfile/command", "github.com/moby/buildkit/frontend/dockerfile/instructions",
			"github.com/moby/buildkit/frontend/dockerfile/parser", "github.com/moby/buildkit/frontend/dockerfile/shell",
			"github.com/opencontainers/image-spec/...",
		}},
		{Package: "services/conda/solver", May: []string{"services/internal/conda", "services/internal/fault", "services/internal/limits"}, Only: []string{}},
		{Package: "services/conda", May: append(plumbing(), "services/conda/...", "services/internal/conda"), Never: []string{buildkit, sql, redis}},
		{Package: "services/conda/channel", May: append(plumbing(), "services/conda/index", "services/internal/conda"), Never: []string{buildkit, sql, redis}},
		{Package: "services/conda/index", May: []string{"services/internal/conda", "services/internal/fault", "services/internal/limits"}, Only: []string{"golang.org/x/sys/unix"}},
		{Package: "services/inspect", May: append(plumbing(), "services/inspect/listing", "services/internal/layertar"), Never: []string{buildkit, sql, redis}},
		{Package: "services/inspect/listing", May: []string{"services/internal/fault", "services/internal/layertar", "services/internal/limits"}, Only: []string{}},
		{Package: "services/metrics/migrations", Only: []string{}},
		{Package: "services/metrics", May: append(slices.Clone(rooms), metricsBus, "services/metrics/migrations"), Never: []string{buildkit, redis}},
		// Blobs that are kept, whoever asks for them and wherever they come from.
		{Package: "services/registry/blob", May: []string{"services/internal/bucket", "services/internal/limits", "services/internal/upstream"}, Never: []string{buildkit, sql, redis}},
		// The embedded image store, which no pull asks but as any registry.
		{Package: "services/registry/store", May: []string{"services/internal/caller", "services/internal/limits", "services/internal/oci", "services/internal/upstream"}, Never: []string{buildkit, sql, redis}},
		{Package: "services/registry", May: append(plumbing(), metricsBus, "services/internal/bucket", "services/internal/spool", "services/registry/blob"), Never: []string{buildkit, sql, redis}},
		{Package: "services/app", May: []string{"..."}},
		{Package: "services/app/doctor", May: []string{"services/app", "services/builder/daemon", "services/internal/..."}},
		// A client of the service, for its operator.
		{Package: "services/app/compare", May: []string{"proto/gen/...", "services/builder/flatten", "services/builder/shadow", "services/internal/..."}, Never: []string{buildkit, sql, redis}},
		{Package: "services/cmd/slipwayd", May: []string{"services/app", "services/app/compare", "services/app/doctor", "services/internal/config", "services/internal/lifetime"}},
		{Package: "services/e2e", May: []string{"services/internal/testkit", "services/internal/testkit/condadata", "gateway/contracttest", "proto/gen/openapi"}},
	})
}
