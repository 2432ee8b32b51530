package rooms

// builder is the folder of the builder's packages.
const builder = "services/builder/"

// engine is what those who make images stand on.
func engine() []string {
	return []string{
		"proto/gen/...", builder + "jobs/...", builder + "remote", "services/internal/fault", "services/internal/limits", "services/internal/oci",
		"services/internal/retry", "services/internal/upstream",
	}
}

// builderRules are those of who makes images, from the bottom up.
func builderRules() []Rule {
	return []Rule{
		// They start anew for each step of a build.
		{Package: "services/builder/daemon/step", Only: []string{"golang.org/x/sys/unix"}},
		{Package: "services/cmd/slipway-runc", May: []string{"services/builder/daemon/step"}, Only: []string{"golang.org/x/sys/unix"}},
		// What files and images are: no registry, no bus, no job.
		{Package: builder + "flatten", May: []string{"services/internal/layertar"}},
		{Package: builder + "squashfs"},
		{Package: builder + "shadow", May: []string{"services/internal/fault", "services/internal/limits"}},
		{Package: builder + "sif", May: []string{builder + "flatten", builder + "squashfs", "services/internal/limits"}},
		{Package: builder + "artifact", May: []string{"services/internal/conda", "services/internal/fault", "services/internal/limits"}},
		{Package: builder + "layering", May: []string{
			builder + "artifact", "services/internal/bounded", "services/internal/conda", "services/internal/fault", "services/internal/limits",
			"services/internal/oci", "services/internal/upstream",
		}, Never: []string{buildkit, sql, redis}},
		{Package: builder + "claim", May: []string{builder + "jobs/jobstest", builder + "layering", buildBus, "services/internal/limits", "services/internal/memo"}, Never: []string{buildkit, sql, redis}},
		{Package: builder + "daemon", May: []string{builder + "daemon/step", "services/internal/fault", "services/internal/limits", "services/internal/upstream"}, Never: []string{sql, redis}},
		// A job and its log, which all above share; and the registries, for those who make images.
		{Package: builder + "jobs", May: []string{
			"proto/gen/...", "services/internal/fault", "services/internal/oci", "services/internal/retry", "services/internal/upstream",
		}, Never: []string{buildkit, sql, redis}},
		{Package: builder + "jobs/jobstest", May: []string{"proto/gen/...", "services/internal/..."}},
		{Package: builder + "buildlog", May: []string{"proto/gen/...", builder + "jobs", buildBus}, Never: []string{buildkit, sql, redis}},
		{Package: builder + "remote", May: []string{
			"proto/gen/...", builder + "jobs", "services/internal/fault", "services/internal/limits", "services/internal/oci", "services/internal/upstream",
		}, Never: []string{buildkit, sql, redis}},
		// The engines, which do not know each other; one of them knows BuildKit.
		{Package: builder + "engine/buildkit", May: append(engine(), builder+"engine/buildkit/buildkittest", builder+"buildlog", builder+"daemon/step"), Never: []string{sql, redis}},
		{Package: builder + "engine/buildkit/buildkittest", May: append(engine(), builder+"daemon", builder+"engine/buildkit", "services/internal/testkit")},
		{Package: builder + "engine/conda", May: append(engine(), builder+"artifact", builder+"claim", builder+"layering", "services/internal/conda"), Never: []string{buildkit, sql, redis}},
		{Package: builder + "engine/freeze", May: engine(), Never: []string{buildkit, sql, redis}},
		{Package: builder + "engine/sif", May: append(engine(), builder+"flatten", builder+"sif", builder+"squashfs"), Never: []string{buildkit, sql, redis}},
		// The worker has its engines handed in; a test hands it a real one.
		{Package: "services/builder", May: []string{
			"proto/gen/...", builder + "buildlog", builder + "jobs/...", builder + "engine/buildkit/...", "services/internal/bus", buildBus,
			"services/internal/fault", "services/internal/retry",
		}, Never: []string{buildkit, sql, redis}},
	}
}
