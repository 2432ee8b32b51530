package imports

// builder is the folder of the builder's packages.
const builder = "services/builder/"

// engine lists what every engine may import.
func engine() []string {
	return []string{
		"proto/gen/...", builder + "jobs/...", builder + "remote", "services/internal/fault", "services/internal/limits", "services/internal/oci",
		"services/internal/retry", "services/internal/upstream",
	}
}

// builderRules returns the rules of the builder, callees first.
func builderRules() []Rule {
	return []Rule{
		// These programs start for each step of a build.
		{Package: "services/builder/daemon/step", Only: []string{"golang.org/x/sys/unix"}},
		{Package: "services/cmd/slipway-runc", May: []string{"services/builder/daemon/step"}, Only: []string{"golang.org/x/sys/unix"}},
		// Files and images: no registry, no bus, no job.
		{Package: builder + "arena"},
		{Package: builder + "flatten", May: []string{builder + "arena", "services/internal/layertar"}},
		{Package: builder + "pieces"},
		{Package: builder + "squashfs", May: []string{builder + "arena", builder + "pieces"}},
		{Package: builder + "shadow", May: []string{"services/internal/fault", "services/internal/limits"}},
		{Package: builder + "unsquash", May: []string{builder + "squashfs", "services/internal/fault"}, Only: []string{"github.com/klauspost/compress/..."}},
		{Package: builder + "sif", May: []string{builder + "arena", builder + "flatten", builder + "pieces", builder + "squashfs", builder + "unsquash", "services/internal/attest", "services/internal/layertar", "services/internal/limits", "services/internal/oci"}},
		{Package: builder + "sif/parts", May: []string{builder + "arena", builder + "flatten", builder + "jobs", builder + "sif", builder + "squashfs", "services/internal/layertar", "services/internal/limits"}},
		{Package: builder + "claim", May: []string{"proto/gen/...", builder + "jobs/jobstest", packages + "layering", buildBus, "services/internal/fault", "services/internal/limits", "services/internal/memo"}, Never: []string{buildkit, sql, redis}},
		{Package: builder + "daemon", May: []string{builder + "daemon/step", "services/internal/fault", "services/internal/limits", "services/internal/redact", "services/internal/upstream"}, Never: []string{sql, redis}},
		// Jobs, their logs, and the registries that engines read and write.
		{Package: builder + "jobs", May: []string{
			"proto/gen/...", "services/internal/fault", "services/internal/limits", "services/internal/oci", "services/internal/retry", "services/internal/upstream",
		}, Never: []string{buildkit, sql, redis}},
		{Package: builder + "jobs/jobstest", May: []string{"proto/gen/...", "services/internal/..."}},
		{Package: builder + "buildlog", May: []string{"proto/gen/...", builder + "jobs", buildBus}, Never: []string{buildkit, sql, redis}},
		{Package: builder + "remote", May: []string{
			"proto/gen/...", builder + "jobs", "services/internal/fault", "services/internal/limits", "services/internal/oci", "services/internal/policy/enforce", "services/internal/retry", "services/internal/soci", "services/internal/upstream", "services/internal/ztoc",
		}, Never: []string{buildkit, sql, redis}},
		// The engines do not import each other. Only one imports BuildKit.
		{Package: builder + "engine/buildkit", May: append(engine(), builder+"engine/buildkit/buildkittest", builder+"buildlog", builder+"daemon/step", builder+"sif", builder+"unsquash", "services/internal/dockerfile", "services/internal/fairshare", "services/internal/policy/enforce", "services/internal/retry"), Never: []string{sql, redis}},
		{Package: builder + "engine/buildkit/buildkittest", May: append(engine(), builder+"daemon", builder+"engine/buildkit", "services/internal/testkit")},
		{Package: builder + "engine/conda", May: append(engine(), builder+"claim", builder+"sif/parts", builder+"squashfs", packages+"artifact", packages+"layering", conda+"spec", mount+"environment", "services/internal/soci"), Never: []string{buildkit, sql, redis}},
		{Package: builder + "engine/freeze", May: engine(), Never: []string{buildkit, sql, redis}},
		{Package: builder + "engine/mirror", May: append(engine(), buildBus), Never: []string{buildkit, sql, redis}},
		{Package: builder + "engine/sif", May: append(engine(), builder+"flatten", builder+"pieces", builder+"sif", builder+"sif/parts", builder+"squashfs"), Never: []string{buildkit, sql, redis}},
		// The worker gets its engines as arguments; a test uses a real one.
		{Package: "services/builder", May: []string{
			"proto/gen/...", builder + "buildlog", builder + "jobs/...", builder + "engine/buildkit/...", "services/internal/bus", buildBus,
			"services/internal/fault", "services/internal/limits", "services/internal/retry",
		}, Never: []string{buildkit, sql, redis}},
	}
}
