package conda_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/conda"
	"slipway.dev/services/conda/channel"
	"slipway.dev/services/internal/fault"
)

// fileIndex is a build service with an index of files.
type fileIndex struct {
	buildv1.BuildServiceClient
	files map[string][]*buildv1.IndexedFile // by path
	asked []*buildv1.FindPackagesRequest
	fails bool
}

func (f *fileIndex) FindPackages(_ context.Context, in *buildv1.FindPackagesRequest, _ ...grpc.CallOption) (*buildv1.FindPackagesResponse, error) {
	f.asked = append(f.asked, in)
	if f.fails {
		return nil, fault.Unavailable.Newf("the database is away")
	}
	out := &buildv1.FindPackagesResponse{}
	for _, file := range f.files[in.GetPath()] {
		if slices.Contains(in.GetChannels(), file.GetChannel()) {
			out.Files = append(out.Files, file)
		}
	}
	return out, nil
}

func (f *fileIndex) SummarizePackages(_ context.Context, in *buildv1.SummarizePackagesRequest, _ ...grpc.CallOption) (*buildv1.SummarizePackagesResponse, error) {
	if f.fails {
		return nil, fault.Unavailable.Newf("the database is away")
	}
	out := &buildv1.SummarizePackagesResponse{}
	for _, p := range in.GetPackages() {
		about := &buildv1.PackageSummary{}
		if p.GetName() == "numpy" {
			about = &buildv1.PackageSummary{Summary: "Arrays", Home: "https://numpy.example", License: "ignored"}
		}
		out.Packages = append(out.Packages, about)
	}
	return out, nil
}

// searchable starts a service whose operator configured the channel lab.
func searchable(t *testing.T, builds buildv1.BuildServiceClient) (condav1.CondaServiceClient, string) {
	t.Helper()
	var lab string
	service, at := serveStore(t, func(d *conda.Deps) { d.Build = builds }, func(o *channel.Options) {
		// The address of the server is that of its alias.
		c, err := o.Names.Resolve("lab")
		if err != nil {
			t.Fatal(err)
		}
		lab = c.URL
		if o.Names, err = channel.NewNames(strings.TrimSuffix(lab, "/lab"), []string{"lab=" + lab}); err != nil {
			t.Fatal(err)
		}
	}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/other/linux-64/repodata.json" {
			_, _ = io.WriteString(w, `{"packages.conda":{}}`)
			return
		}
		popular(w, r)
	})
	if at+"/lab" != lab {
		t.Fatalf("the channel is at %s", lab)
	}
	return service, lab
}

// TestSearchByFile checks the order of the results, their versions and paths, and that
// packages are left out that the channel has deleted or replaced.
func TestSearchByFile(t *testing.T) {
	t.Parallel()
	index := &fileIndex{files: map[string][]*buildv1.IndexedFile{}}
	service, lab := searchable(t, index)
	file := func(subdir, name, version, path string) *buildv1.IndexedFile {
		return &buildv1.IndexedFile{Channel: lab, Subdir: subdir, Name: name, FileName: name + "-" + version + "-0.conda", Path: path}
	}
	index.files["bin/num"] = []*buildv1.IndexedFile{
		file("linux-64", "num", "1", "bin/num"), file("linux-64", "numpy", "1", "bin/num"), file("linux-64", "numpy", "2", "bin/num"),
		file("linux-aarch64", "arms", "10", "bin/num"), file("linux-aarch64", "arms", "2", "bin/num"),
		file("linux-64", "deleted", "1", "bin/num"), file("linux-64", "numba", "0.9", "bin/num"),
		{Channel: lab + "x", Subdir: "linux-64", Name: "num", FileName: "num-1-0.conda", Path: "bin/num"},
	}
	index.files["num.h"] = []*buildv1.IndexedFile{file("linux-64", "num", "1", "include/num.h"), file("linux-64", "num", "1", "include/a/num.h")}
	search := func(req *condav1.SearchPackagesRequest) (string, *condav1.SearchPackagesResponse) {
		t.Helper()
		req.Channel = "lab"
		got, err := service.SearchPackages(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, p := range got.GetPackages() {
			all = append(all, p.GetName()+" "+strings.Join(p.GetVersions(), ","))
		}
		return strings.Join(all, "; "), got
	}
	text, got := search(&condav1.SearchPackagesRequest{Command: "num"})
	if text != "numpy 2,1; arms 10,2; num 1" || got.GetTotal() != 3 {
		t.Errorf("found %s of %d", text, got.GetTotal())
	}
	if p := got.GetPackages()[0]; p.GetSummary() != "Arrays" || p.GetHome() != "https://numpy.example" || p.GetLicense() != "BSD-3-Clause" || p.GetDependents() != 2 || len(p.GetPaths()) > 0 {
		t.Errorf("numpy is %v", p)
	}
	if text, got := search(&condav1.SearchPackagesRequest{Command: "num", Max: 1, Offset: 2}); got.GetTotal() != 3 || text != "num 1" || len(got.GetPackages()) != 1 {
		t.Errorf("a page is %s", text)
	}
	if text, _ := search(&condav1.SearchPackagesRequest{Command: "num", Platform: "linux/arm64"}); text != "arms 10,2" {
		t.Errorf("for arm64 there are %s", text)
	}
	if _, got := search(&condav1.SearchPackagesRequest{File: "num.h"}); strings.Join(got.GetPackages()[0].GetPaths(), " ") != "include/a/num.h include/num.h" {
		t.Errorf("by a file there are %v", got)
	}
	for file, path := range map[string]string{"/opt/conda/lib/a": "lib/a", "lib/a": "lib/a", "/lib/a": "lib/a", "a": "a"} {
		if _, got := search(&condav1.SearchPackagesRequest{File: file}); got.GetTotal() != 0 || index.asked[len(index.asked)-1].GetPath() != path {
			t.Errorf("for %s the index is asked for %s, and it finds %v", file, index.asked[len(index.asked)-1].GetPath(), got)
		}
	}
	// A search by name has summaries, if the index is available.
	if _, got := search(&condav1.SearchPackagesRequest{Q: "numpy"}); got.GetPackages()[0].GetSummary() != "Arrays" {
		t.Errorf("by name there are %v", got)
	}
	index.fails = true
	if _, got := search(&condav1.SearchPackagesRequest{Q: "numpy"}); got.GetPackages()[0].Summary != nil {
		t.Errorf("without the index there are %v", got)
	}
	if _, err := service.SearchPackages(t.Context(), &condav1.SearchPackagesRequest{Command: "num", Channel: "lab"}); !errors.Is(err, fault.Unavailable) {
		t.Errorf("without the index: %v", err)
	}
}

// TestSearchByFileRejects checks that channels of users are not searched, and invalid
// searches.
func TestSearchByFileRejects(t *testing.T) {
	t.Parallel()
	index := &fileIndex{}
	service, _ := searchable(t, index)
	for name, req := range map[string]*condav1.SearchPackagesRequest{
		"a channel of a user": {Command: "a", Channel: "other"},
		"a name as well":      {Command: "a", Q: "a", Channel: "lab"},
		"both":                {Command: "a", File: "a", Channel: "lab"},
		"a path as command":   {Command: "bin/a", Channel: "lab"},
		"a folder":            {File: "bin/", Channel: "lab"},
		"the root":            {File: "/", Channel: "lab"},
		"a long command":      {Command: strings.Repeat("a", 252), Channel: "lab"},
		"a long file":         {File: strings.Repeat("a", 256), Channel: "lab"},
	} {
		if got, err := service.SearchPackages(t.Context(), req); !errors.Is(err, fault.Invalid) || len(index.asked) > 0 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	service, _ = searchable(t, nil)
	if _, err := service.SearchPackages(t.Context(), &condav1.SearchPackagesRequest{Command: "a", Channel: "lab"}); !errors.Is(err, fault.Unsupported) {
		t.Errorf("without builds: %v", err)
	}
}

// TestIndexedChannels checks that a lock lists only channels that the operator configured and
// that were read without a login.
func TestIndexedChannels(t *testing.T) {
	t.Parallel()
	service, lab := searchable(t, nil)
	solve := func(channels ...string) []string {
		t.Helper()
		got, err := service.SolvePackages(t.Context(), &condav1.SolvePackagesRequest{Lock: &condav1.LockQuery{Packages: &condav1.CondaPackages{Type: "CONDA", Entries: []string{"num"}, Channels: channels}}})
		if err != nil || got.GetAnswer().GetConflict() != nil {
			t.Fatal(got, err)
		}
		return got.GetIndexedChannels()
	}
	if got := solve("lab", "other"); !slices.Equal(got, []string{lab}) {
		t.Errorf("of a configured channel and another one there are %v", got)
	}
}
