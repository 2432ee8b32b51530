package imports

// client is the folder of the command line's packages.
const client = "services/cmd/slipway/internal/"

// library is the package of the REST client.
const library = "services/client"

// bench is the folder of the bench's packages.
const bench = "services/bench/internal/"

// clientRules returns the rules of the command line, which no service imports.
func clientRules() []Rule {
	return []Rule{
		// Other programs may import the client, which is therefore self-contained.
		{Package: library, May: []string{"proto/gen/..."}, Only: []string{"google.golang.org/protobuf/..."}},
		// Commands use sessions with a server, which use input and output.
		{Package: "services/cmd/slipway", May: []string{client + "..."}},
		{Package: client + "usage"},
		{Package: client + "output", May: []string{client + "usage"}},
		{Package: client + "file"},
		{Package: client + "prompt", May: []string{client + "usage"}},
		{Package: client + "dockerfile", May: []string{client + "usage"}},
		{Package: client + "layer", May: []string{"proto/gen/...", client + "output"}},
		{Package: client + "session", May: []string{"proto/gen/...", library, client + "output", client + "prompt", client + "usage"}},
		{Package: client + "follow", May: []string{"proto/gen/...", library, client + "output", client + "session"}},
		{Package: client + "image", May: []string{
			"proto/gen/...", "services/internal/limits", "services/internal/vex", client + "dockerfile", client + "follow", client + "layer", client + "output", client + "session", client + "usage",
		}},
		{Package: client + "conda", May: []string{"proto/gen/...", client + "image", client + "output", client + "session", client + "usage"}},
		{Package: client + "catalog", May: []string{"proto/gen/...", client + "image", client + "output", client + "session", client + "usage"}},
		{Package: client + "batch", May: []string{
			"proto/gen/...", "services/internal/limits", library, client + "conda", client + "file", client + "image", client + "output", client + "session", client + "usage",
		}},
		{Package: client + "bundle", May: []string{"services/internal/limits", "services/mount/environment", client + "batch", client + "file", client + "output", client + "session", client + "usage"}},
		{Package: client + "run", May: []string{
			"proto/gen/...", "services/internal/lifetime", "services/internal/limits", "services/mount/...", client + "bundle", client + "conda", client + "follow", client + "image", client + "output", client + "session", client + "usage", client + "verify",
		}},
		{Package: client + "doctor", May: []string{"proto/gen/...", "services/mount/cache", "services/mount/sandbox", client + "output", client + "run", client + "session", client + "usage"}},
		{Package: client + "verify", May: []string{"services/internal/attest", "services/internal/attest/trust", "services/internal/limits", client + "bundle", client + "output", client + "session", client + "usage"}},
		{Package: client + "snakemake", May: []string{client + "batch", client + "file", client + "output", client + "session"}},
		{Package: client + "nfcore", May: []string{client + "batch", client + "file", client + "output", client + "session", client + "usage"}},
		{Package: client + "patch", May: []string{"proto/gen/...", library, client + "follow", client + "output", client + "session", client + "usage"}},
		{Package: client + "account", May: []string{
			"proto/gen/...", "services/internal/lifetime", "services/internal/limits", "services/internal/vex", client + "output", client + "prompt", client + "session", client + "usage",
		}},
		{Package: client + "...", May: []string{"proto/gen/...", client + "output", client + "session", client + "usage"}},
	}
}

// benchRules returns the rules of the benchmarks.
func benchRules() []Rule {
	return []Rule{
		// Sections use measurements, which share one set of servers. The lists of Conda channels,
		// the solver and the layers of packages are measured without their services.
		{Package: "services/bench", May: []string{bench + "..."}},
		{Package: bench + "must"},
		{Package: bench + "figure", May: []string{bench + "must"}},
		{Package: bench + "process", May: []string{bench + "must"}},
		{Package: bench + "engine"},
		{Package: bench + "images", May: []string{bench + "must"}},
		{Package: bench + "load", May: []string{bench + "engine", bench + "figure", bench + "must", bench + "process"}},
		{Package: bench + "slipwayd", May: []string{bench + "engine", bench + "figure", bench + "load", bench + "must", bench + "process"}},
		{Package: bench + "world", May: []string{
			bench + "engine", bench + "figure", bench + "images", bench + "must", bench + "process", bench + "slipwayd",
		}},
		{Package: bench + "measure", May: []string{
			bench + "engine", bench + "figure", bench + "images", bench + "load", bench + "must", bench + "process", bench + "slipwayd", bench + "world",
			"services/internal/testkit/worstcase",
		}},
		{Package: bench + "channel", May: []string{bench + "must", bench + "world"}},
		{Package: bench + "pipeline", May: []string{
			bench + "channel", bench + "engine", bench + "figure", bench + "images", bench + "load", bench + "must", bench + "process", bench + "slipwayd", bench + "world",
			"services/internal/testkit/condadata",
		}},
		{Package: bench + "conda", May: []string{
			bench + "channel", bench + "engine", bench + "figure", bench + "load", bench + "must", bench + "process", bench + "slipwayd", bench + "world",
			conda + "channel", conda + "index", conda + "packages/artifact", conda + "solver", conda + "spec", "services/internal/sbom", "services/internal/testkit/condadata",
		}},
	}
}
