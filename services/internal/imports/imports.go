// Package imports is the table of what each package may import. Its test compares the table
// with the imports of the source. A new dependency between packages requires a change of this
// table, which is visible in review.
package imports

import "slices"

// Ours is the import path prefix of the modules of this repository.
const Ours = "slipway.dev/"

// A Rule lists what a package, or a folder of packages, may import.
type Rule struct {
	// Package is an import path without Ours. A path that ends in "/..." is a folder with
	// all packages in it.
	Package string
	// May lists the only packages of this repository that it may import, in the same form.
	May []string
	// Only lists the only packages of other modules that it may import; nil allows all except
	// Never.
	Only []string
	// Never lists packages of other modules that it must not import.
	Never []string
}

// Packages that few services may import.
const (
	sql      = "database/sql"
	redis    = "github.com/redis/go-redis/..."
	buildkit = "github.com/moby/buildkit/..."
	sqldb    = "services/internal/sqldb"
)

// Packages that define messages on the bus, for publishers and consumers.
const (
	buildBus   = "services/internal/bus/buildbus"
	eventBus   = "services/internal/bus/eventbus"
	metricsBus = "services/internal/bus/metricsbus"
)

// shared lists the packages that every service may import.
func shared() []string {
	return []string{
		"proto/gen/...", "services/internal/bounded", "services/internal/bus", "services/internal/caller", "services/internal/fairshare", "services/internal/fault",
		"services/internal/htpasswd", "services/internal/httprecord", "services/internal/kv", "services/internal/limits", "services/internal/memo", "services/internal/oci", "services/internal/paging", "services/internal/policy", "services/internal/policy/enforce", "services/internal/ratelimit", "services/internal/retry", "services/internal/rpc", "services/internal/upstream",
	}
}

// internalRules returns the rules of the packages that services share.
func internalRules() []Rule {
	return []Rule{
		{Package: "services/internal/fault", Only: []string{"google.golang.org/..."}},
		{Package: "services/internal/fairshare", May: []string{"services/internal/fault"}, Only: []string{"github.com/prometheus/client_golang/..."}},
		{Package: "services/internal/limits", Only: []string{"fmt"}},
		{Package: "services/internal/bounded", Only: []string{}},
		{Package: "services/internal/redact", Only: []string{}},
		{Package: "services/internal/retry", Only: []string{}},
		{Package: "services/internal/spelling", Only: []string{}},
		{Package: "services/internal/lifetime", Only: []string{}},
		{Package: "services/internal/layertar", May: []string{"services/internal/erofslayer"}, Only: []string{"github.com/klauspost/compress/..."}},
		{Package: "services/internal/attest", May: []string{"services/internal/limits"}, Only: []string{"github.com/opencontainers/go-digest", "github.com/opencontainers/image-spec/..."}},
		{Package: "services/internal/attest/sshagent", May: []string{"services/internal/limits"}, Only: []string{"golang.org/x/crypto/ssh/..."}},
		{Package: "services/internal/attest/trust", May: []string{"services/internal/attest", "services/internal/limits"}, Only: []string{
			"github.com/sigstore/protobuf-specs/gen/pb-go/...", "github.com/sigstore/timestamp-authority/v2/pkg/verification", "google.golang.org/protobuf/encoding/protojson",
		}},
		{Package: "services/internal/attest/keyless", May: []string{
			"services/internal/attest", "services/internal/attest/trust", "services/internal/fault", "services/internal/limits",
		}, Only: []string{"github.com/digitorus/timestamp"}},
		{Package: "services/internal/attest/sign", May: []string{"services/internal/attest"}, Only: []string{}},
		// The operator's rules: values in, violations out.
		{Package: "services/internal/policy", May: []string{"services/internal/attest", "services/internal/fault", "services/internal/limits", "services/internal/oci"}, Only: []string{"github.com/github/go-spdx/v2/spdxexp", "github.com/github/go-spdx/v2/spdxexp/spdxlicenses"}},
		{Package: "services/internal/policy/enforce", May: []string{
			"proto/gen/...", "services/internal/attest", "services/internal/fairshare", "services/internal/fault", "services/internal/limits", "services/internal/memo", "services/internal/oci", "services/internal/policy", "services/internal/upstream",
		}, Never: []string{buildkit, sql, redis}},
		{Package: "services/internal/memo", Only: []string{"github.com/maypok86/otter/..."}},
		{Package: "services/internal/oci", May: []string{"proto/gen/slipway/container/v1", "services/internal/bounded", "services/internal/fault", "services/internal/limits"}, Only: []string{
			"github.com/containerd/platforms", "github.com/distribution/reference", "github.com/opencontainers/go-digest", "github.com/opencontainers/image-spec/...",
		}},
		{Package: "services/internal/caller", May: []string{
			"proto/gen/...", "services/internal/fairshare", "services/internal/fault", "services/internal/limits", "services/internal/memo", "services/internal/oci", "services/internal/ratelimit",
			"services/internal/rpc", "services/internal/upstream",
		}},
		{Package: eventBus, May: []string{"proto/gen/...", "services/internal/bus", "services/internal/limits"}, Never: []string{buildkit, sql, redis}},
		{Package: metricsBus, May: []string{"proto/gen/...", "services/internal/bus", "services/internal/caller", "services/internal/retry"}, Never: []string{buildkit, sql, redis}},
		{Package: "services/internal/rpc", May: []string{"proto/gen/...", "services/internal/..."}, Never: []string{buildkit}},
		{Package: "services/internal/testkit", May: []string{"proto/gen/...", "services/internal/..."}},
		// Bills of materials of environments: values in, documents out.
		{Package: "services/internal/sbom", May: []string{conda + "spec", "services/internal/fault", "services/internal/limits"}, Only: []string{
			"github.com/CycloneDX/cyclonedx-go", "github.com/github/go-spdx/v2/spdxexp", "github.com/google/uuid", "github.com/package-url/packageurl-go",
			"github.com/spdx/tools-golang/spdx/v2/common", "github.com/spdx/tools-golang/spdx/v2/v2_3",
		}},
		// Known vulnerabilities of the components of bills of materials, in a SQLite file of its own.
		{Package: "services/internal/vulns", May: []string{
			conda + "spec", "services/internal/bounded", "services/internal/fault", "services/internal/limits", "services/internal/retry", "services/internal/sbom", "services/internal/vex", sqldb,
		}, Only: []string{sql, "github.com/package-url/packageurl-go", "github.com/pandatix/go-cvss/...", "github.com/prometheus/client_golang/..."}},
		// OpenVEX documents, also for the command line: no I/O except files.
		{Package: "services/internal/vex", May: []string{"proto/gen/...", "services/internal/bounded", "services/internal/fault", "services/internal/limits"}, Only: []string{
			"github.com/package-url/packageurl-go", "google.golang.org/protobuf/proto",
		}},
		{Package: "services/internal/vex/owners", May: []string{"proto/gen/...", "services/internal/caller", "services/internal/limits", "services/internal/memo", "services/internal/vex"}},
		{Package: "services/internal/testkit/condadata", May: []string{conda + "spec", "services/internal/..."}},
		{Package: "services/internal/pullthrough", May: []string{
			"services/internal/fault", "services/internal/limits", "services/internal/memo", "services/internal/oci", "services/internal/upstream",
		}, Never: []string{buildkit, sql, redis}},
		// Dockerfiles are parsed as the engine parses them, with the packages of BuildKit that
		// do no I/O.
		{Package: "services/internal/dockerfile", May: []string{"services/internal/fault", "services/internal/limits", "services/internal/oci"}, Only: []string{
			"github.com/moby/buildkit/frontend/dockerfile/command", "github.com/moby/buildkit/frontend/dockerfile/instructions",
			"github.com/moby/buildkit/frontend/dockerfile/parser", "github.com/moby/buildkit/frontend/dockerfile/shell",
			"github.com/opencontainers/image-spec/...",
		}},
		{Package: "services/internal/sink", May: []string{"services/internal/limits", "services/internal/retry"}, Only: []string{}},
		{Package: "services/internal/...", May: []string{"services/internal/..."}, Never: []string{buildkit}},
	}
}

// mount is the folder of the packages about mounted environments.
const mount = "services/mount/"

// mountRules returns the rules of the packages about mounted environments, callees first.
func mountRules() []Rule {
	return []Rule{
		// Formats: bytes in, bytes out. Builders write them, and the command line reads them.
		{Package: mount + "erofs", May: []string{"services/internal/limits"}, Only: []string{}},
		{Package: mount + "pack", May: []string{mount + "erofs", "services/internal/limits"}, Only: []string{"github.com/klauspost/compress/zstd"}},
		{Package: mount + "environment", May: []string{mount + "pack", "services/internal/limits"}, Only: []string{"github.com/opencontainers/go-digest", "github.com/opencontainers/image-spec/..."}},
		{Package: mount + "mounttest", May: []string{mount + "environment", mount + "erofs", mount + "pack"}},
		// Only the command line mounts, on the user's machine.
		{Package: mount + "cache", May: []string{mount + "erofs", mount + "mounttest", mount + "pack", "services/internal/limits"}, Only: []string{"github.com/klauspost/compress/zstd", "golang.org/x/sys/unix"}},
		// Images are unpacked with the code of builders that merges layers and reads squashfs, which depends on nothing else of them.
		{Package: mount + "rootfs", May: []string{builder + "arena", builder + "flatten", builder + "unsquash", "services/internal/limits"}, Only: []string{}},
		{Package: mount + "fuse", May: []string{mount + "erofs", mount + "mounttest"}, Only: []string{"golang.org/x/sys/unix"}},
		// It verifies indexes, which the kernel reads as root.
		{Package: mount + "kernel", May: []string{mount + "erofs", mount + "mounttest"}, Only: []string{"golang.org/x/sys/unix"}},
		{Package: mount + "nofile", Only: []string{"golang.org/x/sys/unix"}},
		{Package: mount + "sandbox", May: []string{mount + "fuse", mount + "kernel", mount + "nofile", "services/internal/limits"}, Only: []string{"golang.org/x/sys/unix"}},
		{Package: mount + "agent", May: []string{mount + "fuse", "services/internal/limits"}, Only: []string{"golang.org/x/sys/unix"}},
	}
}

// Rules returns the table. The first rule whose Package matches applies.
func Rules() []Rule {
	storing := append(shared(), sqldb) // for services with tables
	return slices.Concat(builderRules(), condaRules(), clientRules(), benchRules(), internalRules(), mountRules(), []Rule{
		{Package: "proto/gen/...", May: []string{"proto/gen/..."}},
		{Package: "gateway/contract"},
		{Package: "gateway/contracttest"},
		{Package: "gateway/openapi", May: []string{"gateway/contracttest", "proto/gen/..."}},
		{Package: "gateway/manual"},
		{Package: "gateway", May: []string{"proto/gen/...", "docs", "gateway/manual"}, Never: []string{sql, redis}},

		// Packages that all packages of the platform share.
		{Package: "services/platform/api", May: []string{"services/internal/fault", "services/internal/limits", "services/internal/paging", sqldb}, Only: []string{"google.golang.org/protobuf/..."}},
		{Package: "services/platform/vault", May: []string{"services/internal/fault", sqldb}, Only: []string{}},
		{Package: "services/platform/audit", May: []string{
			"proto/gen/...", "services/internal/fault", "services/internal/limits", "services/internal/ratelimit", "services/internal/retry", "services/internal/rpc", "services/internal/sink", sqldb, "services/platform/api", "services/platform/migrations",
		}, Only: []string{"google.golang.org/protobuf/...", "github.com/prometheus/client_golang/..."}},
		// The platform's tables refer to each other, so that they share one schema.
		{Package: "services/platform/migrations", Only: []string{}},
		{Package: "services/platform/identity", May: append(slices.Clone(storing), "services/platform/api", "services/platform/audit", "services/platform/migrations", "services/platform/vault"), Never: []string{buildkit}},
		// Members and participants are users.
		{Package: "services/platform/orgs", May: append(slices.Clone(storing), "services/platform/api", "services/platform/audit", "services/platform/identity", "services/platform/migrations"), Never: []string{buildkit}},
		// A run belongs to a workspace.
		{Package: "services/platform/runs", May: append(slices.Clone(storing), "services/platform/api", "services/platform/orgs"), Never: []string{buildkit}},
		// Credentials belong to a workspace, whose roles grant their use.
		{Package: "services/platform/credentials", May: append(slices.Clone(storing), "services/platform/api", "services/platform/audit", "services/platform/identity", "services/platform/orgs", "services/platform/vault"), Never: []string{buildkit}},
		// Credentials of other platforms are used like our own.
		{Package: "services/platform/federation", May: append(slices.Clone(storing), "services/platform/api", "services/platform/audit", "services/platform/credentials", "services/platform/identity", "services/platform/orgs", "services/platform/vault"), Never: []string{buildkit}},
		// A webhook belongs to a user or a workspace.
		{Package: "services/platform/webhooks", May: append(slices.Clone(storing), eventBus, "services/platform/api", "services/platform/audit", "services/platform/identity", "services/platform/orgs", "services/platform/vault"), Never: []string{buildkit}},
		// A limit is of an organisation, a workspace or a user.
		{Package: "services/platform/quota", May: append(slices.Clone(storing), "services/platform/api", "services/platform/audit", "services/platform/identity"), Never: []string{buildkit}},
		{Package: "services/platform/vexdocs", May: append(slices.Clone(storing), "services/internal/vex", "services/platform/api", "services/platform/audit", "services/platform/identity", "services/platform/orgs"), Never: []string{buildkit}},
		// The service itself only combines its packages.
		{Package: "services/platform", May: append(slices.Clone(storing), "services/internal/sink", "services/platform/..."), Never: []string{buildkit}},
		{Package: "services/build/migrations", Only: []string{}},
		{Package: "services/build/engine", May: []string{"proto/gen/...", "services/internal/oci"}, Only: []string{}},
		{Package: "services/build/store", May: []string{
			"proto/gen/...", "services/build/engine", "services/build/migrations", eventBus, metricsBus, "services/internal/caller", "services/internal/fault", "services/internal/limits", sqldb,
		}, Never: []string{buildkit}},
		{Package: "services/build/workers", May: []string{"proto/gen/...", "services/build/engine", "services/internal/fault"}, Only: []string{"google.golang.org/protobuf/..."}},
		{Package: "services/build/logs", May: []string{
			"proto/gen/...", "services/build/store", "services/internal/bus", buildBus, "services/internal/fault", "services/internal/limits", "services/internal/retry",
		}, Never: []string{buildkit, sql, redis}},
		{Package: "services/build/queue", May: []string{
			"proto/gen/...", "services/build/engine", "services/build/logs", "services/build/store", "services/build/workers", "services/internal/bus", buildBus,
			"services/internal/fairshare", "services/internal/ratelimit",
		}, Never: []string{buildkit, sql, redis}},
		{Package: "services/build/estimate", May: []string{"services/build/engine", "services/build/store", "services/build/workers", "services/internal/ratelimit"}, Only: []string{}},
		{Package: "services/build", May: append(slices.Clone(storing), buildBus, eventBus, metricsBus, "services/build/...", "services/internal/attest", "services/internal/soci", "services/mount/environment", conda+"lockfile", conda+"spec"), Never: []string{buildkit}},
		{Package: "services/container/migrations", Only: []string{}},
		{Package: "services/container", May: append(slices.Clone(storing), eventBus, "services/container/...", conda+"lockfile", conda+"spec", "services/internal/attest", "services/internal/dockerfile", "services/internal/pullthrough", "services/internal/sbom", "services/internal/vex/owners", "services/mount/environment"), Never: []string{buildkit}},
		{Package: "services/container/tokens", May: []string{"proto/gen/slipway/container/v1"}, Never: []string{sql}},
		{Package: "services/container/store", May: []string{
			"proto/gen/...", "services/container/migrations", "services/container/tokens", "services/internal/caller", "services/internal/fault", "services/internal/limits", sqldb,
		}, Never: []string{redis}},
		{Package: "services/container/request", May: []string{
			"proto/gen/...", "services/container/conda", "services/container/definition", conda + "spec", "services/internal/caller", "services/internal/dockerfile", "services/internal/fault",
			"services/internal/limits", "services/internal/oci",
		}, Never: []string{sql, redis}},
		{Package: "services/container/citation", May: []string{"services/internal/fault"}, Only: []string{}},
		{Package: "services/container/definition", May: []string{"services/internal/fault", "services/internal/limits", "services/internal/oci"}, Only: []string{}},
		{Package: "services/container/layers", May: []string{
			"proto/gen/...", "services/container/request", "services/internal/fairshare", "services/internal/fault", "services/internal/limits", "services/internal/memo",
			"services/internal/upstream",
		}, Never: []string{sql, redis}},
		{Package: "services/container/sources", May: []string{
			"proto/gen/...", "services/internal/caller", "services/internal/fault", "services/internal/limits", "services/internal/memo", "services/internal/oci", "services/internal/pullthrough", "services/internal/upstream",
		}, Never: []string{sql, redis}},
		{Package: "services/container/conda", May: []string{"proto/gen/...", conda + "envfile", conda + "lockfile", conda + "spec", "services/internal/fault", "services/internal/limits", "services/internal/oci"}, Only: []string{
			"github.com/goccy/go-yaml/...", "google.golang.org/protobuf/proto",
		}},
		{Package: "services/inspect", May: append(shared(), "services/inspect/installed", "services/inspect/listing", conda+"spec", "services/internal/layertar", "services/internal/sbom", "services/internal/vex", "services/internal/vex/owners", "services/internal/vulns", "services/mount/environment", "services/mount/erofs"), Never: []string{buildkit, sql, redis}},
		{Package: "services/inspect/installed", May: []string{conda + "spec", "services/internal/layertar", "services/internal/limits"}, Only: []string{}},
		{Package: "services/inspect/listing", May: []string{"services/internal/fault", "services/internal/layertar", "services/internal/limits"}, Only: []string{}},
		{Package: "services/metrics/migrations", Only: []string{}},
		{Package: "services/metrics", May: append(slices.Clone(storing), metricsBus, "services/metrics/migrations"), Never: []string{buildkit, redis}},
		// The blob cache does not know which registry or client a blob belongs to.
		{Package: "services/registry/blob", May: []string{"services/internal/bucket", "services/internal/limits", "services/internal/upstream"}, Never: []string{buildkit, sql, redis}},
		// The embedded image store is used like any other registry.
		{Package: "services/registry/store", May: []string{"services/internal/caller", "services/internal/limits", "services/internal/oci", "services/internal/upstream"}, Never: []string{buildkit, sql, redis}},
		{Package: "services/registry", May: append(shared(), metricsBus, "services/internal/bucket", "services/internal/pullthrough", "services/internal/spool", "services/mount/environment", "services/registry/blob"), Never: []string{buildkit, sql, redis}},
		{Package: "services/app", May: []string{"..."}},
		{Package: "services/app/doctor", May: []string{"services/app", "services/builder/daemon", "services/internal/..."}},
		{Package: "services/app/transfer", May: []string{
			"proto/gen/...", "services/app", "services/internal/caller", "services/internal/config", sqldb, "services/registry/store",
		}, Never: []string{buildkit, redis}},
		{Package: "services/app/backup", May: []string{"services/app", "services/internal/config", sqldb, "services/registry/store"}, Never: []string{buildkit, redis}},
		// A client of the service for operators.
		{Package: "services/app/compare", May: []string{"proto/gen/...", "services/builder/arena", "services/builder/flatten", "services/builder/shadow", "services/internal/..."}, Never: []string{buildkit, sql, redis}},
		{Package: "services/cmd/slipwayd", May: []string{"services/app", "services/app/backup", "services/app/compare", "services/app/doctor", "services/app/transfer", "services/internal/config", "services/internal/lifetime"}},
		{Package: "services/e2e", May: []string{"services/internal/testkit", "services/internal/testkit/condadata", "services/internal/testkit/worstcase", "gateway/contracttest", "proto/gen/openapi"}},
	})
}
