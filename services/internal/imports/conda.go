package imports

// conda is the folder of the packages about Conda. packages are those among them that make
// layers.
const (
	conda    = "services/conda/"
	packages = conda + "packages/"
)

// condaRules returns the rules of the packages about Conda, callees first.
func condaRules() []Rule {
	return []Rule{
		// Files and specifications: no I/O. Services, builders and clients may import them.
		{Package: conda + "markup", May: []string{"services/internal/limits"}, Only: []string{"github.com/goccy/go-yaml/..."}},
		{Package: conda + "spec", May: []string{"services/internal/fault", "services/internal/limits"}, Only: []string{}},
		{Package: conda + "envfile", May: []string{conda + "markup", conda + "spec", "services/internal/fault", "services/internal/limits"}, Only: []string{
			"github.com/goccy/go-yaml/...", "github.com/pelletier/go-toml/v2",
		}},
		{Package: conda + "lockfile", May: []string{"proto/gen/slipway/conda/v1", conda + "envfile", conda + "markup", conda + "spec", "services/internal/fault", "services/internal/limits"}, Only: []string{"github.com/goccy/go-yaml/..."}},
		// Lists of packages, and environments that are chosen from them.
		{Package: conda + "history", May: []string{"services/internal/limits"}, Only: []string{"github.com/klauspost/compress/zstd"}},
		{Package: conda + "index", May: []string{conda + "spec", "services/internal/fault", "services/internal/limits"}, Only: []string{"golang.org/x/sys/unix"}},
		{Package: conda + "channel", May: append(shared(), conda+"history", conda+"index", conda+"spec", "services/internal/spelling"), Never: []string{buildkit, sql, redis}},
		{Package: conda + "solver", May: []string{conda + "spec", "services/internal/fault", "services/internal/limits"}, Only: []string{}},
		// The format of zTOCs is not Conda's: any layer can have one.
		{Package: "services/internal/ztoc", May: []string{"services/internal/limits"}, Only: []string{"github.com/google/flatbuffers/go", "github.com/klauspost/compress/gzip", "github.com/opencontainers/go-digest", "golang.org/x/sys/unix"}},
		{Package: "services/internal/chunked", Only: []string{"github.com/klauspost/compress/gzip", "github.com/klauspost/compress/zstd", "github.com/opencontainers/go-digest"}},
		{Package: "services/internal/erofslayer", May: []string{"services/internal/limits"}, Only: []string{"github.com/klauspost/compress/zstd", "github.com/opencontainers/go-digest"}},
		{Package: "services/internal/soci", May: []string{"services/internal/fault", "services/internal/limits", "services/internal/oci", "services/internal/ztoc"}, Only: []string{
			"github.com/opencontainers/go-digest", "github.com/opencontainers/image-spec/...",
		}},
		// Packages become the layers of an image. Only builders import these.
		{Package: packages + "artifact", May: []string{conda + "spec", "services/internal/fault", "services/internal/limits"}},
		{Package: packages + "activation", May: []string{"services/internal/limits"}, Never: []string{buildkit, sql, redis}},
		{Package: packages + "layering", May: []string{
			conda + "spec", packages + "activation", packages + "artifact", "services/internal/bounded", "services/internal/chunked", "services/internal/erofslayer", "services/internal/fault", "services/internal/layertar", "services/internal/limits", "services/internal/memo",
			"services/internal/oci", "services/internal/soci", "services/internal/upstream", "services/internal/ztoc", mount + "environment", mount + "erofs", mount + "pack",
		}, Never: []string{buildkit, sql, redis}},
		// The service. No other package imports it.
		{Package: "services/conda", May: append(shared(), conda+"channel", conda+"envfile", conda+"index", conda+"lockfile", conda+"solver", conda+"spec"), Never: []string{buildkit, sql, redis}},
	}
}
