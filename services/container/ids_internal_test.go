package container

import (
	"encoding/base64"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/caller"
)

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// TestIDsStay checks the content digests and names of existing images: changing them would
// rebuild all images.
func TestIDsStay(t *testing.T) {
	t.Parallel()
	layer := &containerv1.Layer{
		Location: "https://h.example/x-arm64.tar.gz", GzipSize: proto.Int64(3),
		GzipDigest: "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		TarDigest:  "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
	}
	conda := func(p *containerv1.Packages) *containerv1.ContainerRequest {
		p.Type = "CONDA"
		return &containerv1.ContainerRequest{Packages: p}
	}
	with := func(r *containerv1.ContainerRequest, change func(*containerv1.ContainerRequest)) *containerv1.ContainerRequest {
		change(r)
		return r
	}
	for _, tc := range []struct {
		name         string
		in           *containerv1.ContainerRequest
		digest, path string
	}{
		{"Dockerfile", &containerv1.ContainerRequest{ContainerFile: b64("ARG V=1\nFROM alpine:$V AS a\nRUN <<E\nx\nE\nFROM a\nCOPY --from=b.io/c:1 / /\n")}, "52b43c220c8cbd5ea8d2ffaa8d71b70fe10e2ddda382931b28655f8d0be71e0b", "builds:52b43c220c8cbd5e"},
		{"Dockerfile for arm64", &containerv1.ContainerRequest{ContainerFile: b64("FROM alpine\n"), ContainerPlatform: "arm64"}, "b7f029a297ddd23a791a119bbabd427ecd928cd27a709b98f4f575ba71e7bdc0", "builds:b7f029a297ddd23a"},
		{"Dockerfile, environment and context", &containerv1.ContainerRequest{
			ContainerFile: b64("FROM alpine\nCOPY conda.yml /\n"), CondaFile: b64("dependencies: [bwa]\n"), BuildContext: layer,
		}, "707ff4f5c5288637d37b7c3b6e671beeb2fd1bb4be0c977b044d5a43663d4c9b", "builds:707ff4f5c5288637"},
		{"two platforms", &containerv1.ContainerRequest{ContainerFile: b64("FROM alpine\n"), ContainerPlatform: "amd64,arm64"}, "7ab270eada4ae06c8db4af43565a63a9ee165526224264d17f02e7320186ffc6", "builds:7ab270eada4ae06c"},
		{"entries", conda(&containerv1.Packages{Entries: []string{"samtools=1.20", " numpy >=1,<2", "bwa 0.7.17 h1_0", "pip:requests[x]>=2"}}), "88c0b804d48c3f7ca17e37e9d5e8cc0dff3eaf8ad4939864a6583c477d1e0197", "builds:samtools-1.20_numpy-1_bwa0.7.17h1_0_pip_requests--88c0b804d48c3f7c"},
		{"entries of two platforms", with(conda(&containerv1.Packages{Entries: []string{"bioconda::samtools=1.20"}}), func(r *containerv1.ContainerRequest) { r.ContainerPlatform = "amd64,arm64" }), "a9566358d8a0c0fcf6b23ea50723f86b26ac1b1592dbca6cd453eefad60b5564", "builds:samtools-1.20--a9566358d8a0c0fc"},
		{"lock", conda(&containerv1.Packages{Entries: []string{"https://h.example/conda.lock"}}), "92bcb9fed9d818db0baa4be06acd07ab191fd33a10b6253eb9d41997bc3733a6", "builds:92bcb9fed9d818db"},
		{"environment", conda(&containerv1.Packages{
			Environment: b64("dependencies:\n- python=3.12\n- pip\n- pip:\n  - numpy==2.0\n  - -e git+https://h/x\n"), Channels: []string{"bioconda", "https://h.example/c"},
		}), "e3a01b522de483d8aa5d6ac4c38998679beb0513cfc6a9b1d19d7e3bee1ca9f9", "builds:python-3.12_pip_numpy-2.0--e3a01b522de483d8"},
		{"options", conda(&containerv1.Packages{Entries: []string{"bwa"}, Channels: []string{"bioconda"}, CondaOpts: &containerv1.CondaOptions{
			MambaImage: "h:5000/m", BaseImage: "debian:12", BasePackages: proto.String(" a=1  b "), Commands: []string{"USER 1", "COPY --from=c:1 /a /b"},
		}}), "75dfacca8780475f6d96ef489dce98331c4c96ee1fc6b96a9a80af3f83b98424", "builds:bwa--75dfacca8780475f"},
		{"conda file with a name", &containerv1.ContainerRequest{CondaFile: b64("name: My-Env\nchannels: [x]\ndependencies: [bwa]\n")}, "368d7dc88b297e15797a5472c2374e846f2376e4bc2ad3c568bcdbd311f4b1fc", "builds:my-env--368d7dc88b297e15"},
		{"image suffix", with(conda(&containerv1.Packages{Entries: []string{"samtools=1.20"}}), func(r *containerv1.ContainerRequest) { r.NameStrategy = "imageSuffix" }), "2575b50dfaac19ef8860813a0d9ac1c283288ae1fdef6078a2ae300f7607c135", "builds/samtools:1.20--2575b50dfaac19ef"},
		{"frozen", with(conda(&containerv1.Packages{Entries: []string{"bwa"}}), func(r *containerv1.ContainerRequest) {
			r.Freeze, r.BuildRepository = true, "q.example/mine"
			r.ContainerConfig = &containerv1.ContainerConfig{Env: []string{"A=b"}, Entrypoint: []string{"x", "y"}, WorkingDir: "/w", Layers: []*containerv1.Layer{layer}}
		}), "7e3f0a1dc735ae63000007c5987348d48eed5972a59439f68371b2b8d7e6e42d", "builds:bwa--7e3f0a1dc735ae63"},
		{"Singularity", with(conda(&containerv1.Packages{Entries: []string{"bwa"}}), func(r *containerv1.ContainerRequest) {
			r.Freeze, r.BuildRepository, r.Format = true, "q.example/mine", "sif"
		}), "c3f5a0c8b6a7f2b30b71de824ec24ba82caee6741838dd6cb20e557eb798d6bc", "builds:bwa--c3f5a0c8b6a7f2b3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := requestOf(t, tc.in)
			if path := got.GetTarget().GetRepository() + ":" + got.GetTarget().GetTag(); got.GetContentDigest() != tc.digest || path != tc.path || got.GetContentId() != got.GetContentDigest()[:16] {
				t.Errorf("got %q, %q", got.GetContentDigest(), path)
			}
		})
	}
	for who, want := range map[caller.ID]string{{}: "a04e76e2f97b20d1", {Endpoint: "https://p.example", UserID: 7, WorkspaceID: 9}: "e41165f71ecee847"} {
		if got := request.ScopeOf(who); got != want {
			t.Errorf("the scope of %v is %q, want %q", who, got, want)
		}
	}
}

// requestOf returns the request to the build service. Packages are installed in steps.
func requestOf(t *testing.T, r *containerv1.ContainerRequest) *buildv1.SubmitBuildRequest {
	t.Helper()
	c := resolved(t, r)
	to := request.Destination{Registry: "r.example", Repository: "builds", Scope: "scope"}
	if c.File != nil {
		return c.Build(c.DockerfilePlan(), to, "")
	}
	return c.Build(c.StepsPlan(*c.Packages, c.Packages.Unsolved()), to, "")
}

// resolved returns an anonymous request without contents, inclusions and issued names.
func resolved(t *testing.T, r *containerv1.ContainerRequest) request.Resolved {
	t.Helper()
	p, err := request.Parse(r, func(string, string) bool { return false })
	if err == nil {
		err = p.CheckContent(false)
	}
	if err != nil {
		t.Fatal(err)
	}
	recipe, err := (&Service{deps: Deps{Now: time.Now}}).readRecipe(t.Context(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return request.Resolved{Parsed: p, Recipe: recipe}
}

// TestCompressionDecidesTheImage checks that each compression has its own content ID in
// every spelling, and that the default has the ID without compression.
func TestCompressionDecidesTheImage(t *testing.T) {
	t.Parallel()
	id := func(change func(*containerv1.ContainerRequest), compression string) (string, *buildv1.Recipe) {
		r := &containerv1.ContainerRequest{}
		if err := protojson.Unmarshal([]byte(`{"buildCompression": `+compression+`}`), r); err != nil {
			t.Fatal(err)
		}
		r.ContainerFile = b64("FROM alpine\n")
		change(r)
		got := requestOf(t, r)
		return got.GetContentId(), got.GetRecipe()
	}
	for name, change := range map[string]func(*containerv1.ContainerRequest){
		"an image": func(*containerv1.ContainerRequest) {},
		"two":      func(r *containerv1.ContainerRequest) { r.ContainerPlatform = "amd64,arm64" },
		"a file":   func(r *containerv1.ContainerRequest) { r.Format = "sif" },
	} {
		seen := map[string]string{}
		for _, same := range [][]string{
			{`{}`, `{"mode": "gzip"}`, `{"force": false}`, `null`},
			{`{"level": 6}`, `{"mode": "gzip", "level": 6}`}, {`{"mode": "gzip", "level": 0}`}, {`{"force": true}`},
			{`{"mode": "zstd"}`}, {`{"mode": "zstd", "level": 18}`}, {`{"mode": "zstd", "level": 19}`}, {`{"mode": "zstd", "force": true}`},
			{`{"mode": "estargz"}`, `{"mode": "estargz", "force": true}`},
		} {
			want, recipe := id(change, same[0])
			if other, ok := seen[want]; ok {
				t.Errorf("%s: %s is the same as %s", name, same[0], other)
			}
			if seen[want] = same[0]; (recipe.GetCompression() == nil) != (same[0] == "{}") {
				t.Errorf("%s: the recipe for %s says %v", name, same[0], recipe.GetCompression())
			}
			for _, text := range same[1:] {
				if got, _ := id(change, text); got != want {
					t.Errorf("%s: %s is not the same as %s", name, text, same[0])
				}
			}
		}
	}
}
