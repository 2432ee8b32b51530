package build_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

const (
	publicChannel  = "https://conda.example/bioconda"
	privateChannel = "https://conda.example/private"
)

// recordAt returns a package of a lock, whose artifact is at url.
func recordAt(name, channel, url string, digest byte) string {
	return fmt.Sprintf(`{"name":%q,"version":"1","build":"0","sha256":%q,"channel":%q,"subdir":"linux-64","fn":"%s-1-0.conda","url":%q}`,
		name, strings.Repeat(string(digest), 64), channel, name, url)
}

// TestPackageIndex checks that workers add packages of their build's lock that belong to
// public channels, and that the conda service finds them. Packages of other channels, of
// channels with a login, and those whose address is elsewhere, are never added.
func TestPackageIndex(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		r := p.replica(t, 100)
		w := newWorker(t, p, 1)
		w.appear(t, 1, &buildv1.Capability{Engine: "conda", Architecture: "any"})
		at := func(channel, name string) string { return channel + "/linux-64/" + name + "-1-0.conda" }
		req := p.packages("indexed", "["+strings.Join([]string{
			recordAt("bcftools", "bioconda", at(publicChannel, "bcftools"), 'a'),
			recordAt("secret", "private", at(privateChannel, "secret"), 'b'),
			recordAt("foreign", publicChannel, at("https://evil.example/x", "foreign"), 'c'),
			recordAt("below", publicChannel, at(publicChannel+"/label/x", "below"), 'd'),
		}, ",")+"]", nil)
		req.Lock.ChannelUrls = []string{publicChannel, privateChannel}
		req.Lock.IndexedChannels = []string{publicChannel, privateChannel}
		req.Lock.PrivateChannels = []string{privateChannel}
		r.submit(t, req)
		j := w.take(t, r, 1)
		ticket := j.job.GetTicket()
		unindexed := func() []string {
			t.Helper()
			got, err := r.ListUnindexedPackages(t.Context(), &buildv1.ListUnindexedPackagesRequest{Ticket: ticket})
			if err != nil {
				t.Fatal(err)
			}
			return got.GetSha256()
		}
		if got := unindexed(); !slices.Equal(got, []string{strings.Repeat("a", 64)}) {
			t.Errorf("the index lacks %v", got)
		}
		var contents []*buildv1.PackageContent
		for _, digest := range "abcde" {
			contents = append(contents, &buildv1.PackageContent{
				Sha256: strings.Repeat(string(digest), 64), Files: []string{"bin/bcftools", "include/a.h"},
				About: &buildv1.PackageSummary{Summary: "Tools for variants", Home: "https://samtools.example", License: "MIT"},
			})
		}
		if _, err := r.IndexPackages(t.Context(), &buildv1.IndexPackagesRequest{Ticket: ticket, Packages: contents}); err != nil {
			t.Fatal(err)
		}
		if got := unindexed(); len(got) > 0 {
			t.Errorf("the index still lacks %v", got)
		}
		all := []string{publicChannel, privateChannel, "https://evil.example/x", publicChannel + "/label/x"}
		found, err := r.FindPackages(t.Context(), &buildv1.FindPackagesRequest{Channels: all, Path: "bin/bcftools"})
		if err != nil || len(found.GetFiles()) != 1 {
			t.Fatalf("found %v, %v", found, err)
		}
		if f := found.GetFiles()[0]; f.GetChannel() != publicChannel || f.GetName() != "bcftools" || f.GetFileName() != "bcftools-1-0.conda" || f.GetPath() != "bin/bcftools" || f.GetSubdir() != "linux-64" {
			t.Errorf("found %v", f)
		}
		got, err := r.SummarizePackages(t.Context(), &buildv1.SummarizePackagesRequest{Packages: []*buildv1.PackageName{{Channel: publicChannel, Name: "x"}, {Channel: publicChannel, Name: "bcftools"}}})
		if err != nil || len(got.GetPackages()) != 2 || got.GetPackages()[0].GetSummary() != "" || got.GetPackages()[1].GetSummary() != "Tools for variants" {
			t.Errorf("the summaries are %v, %v", got, err)
		}
		if got, err := r.FindPackages(t.Context(), &buildv1.FindPackagesRequest{Path: "bin/bcftools"}); err != nil || len(got.GetFiles()) > 0 {
			t.Errorf("without channels: %v, %v", got, err)
		}
	})
}

// TestPackageIndexRejects checks what the calls of the index reject.
func TestPackageIndexRejects(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	w := newWorker(t, p, 1)
	w.appear(t, 1, &buildv1.Capability{Engine: "conda", Architecture: "any"})
	r.submit(t, p.packages("rejected", "["+recordAt("a", "bioconda", publicChannel+"/linux-64/a-1-0.conda", 'a')+"]", nil))
	ticket := w.take(t, r, 1).job.GetTicket()
	content := func(change func(*buildv1.PackageContent)) *buildv1.IndexPackagesRequest {
		c := &buildv1.PackageContent{Sha256: strings.Repeat("a", 64), About: &buildv1.PackageSummary{}, Files: []string{"bin/a"}}
		change(c)
		return &buildv1.IndexPackagesRequest{Ticket: ticket, Packages: []*buildv1.PackageContent{c}}
	}
	for name, req := range map[string]*buildv1.IndexPackagesRequest{
		"a path that leads out": content(func(c *buildv1.PackageContent) { c.Files = []string{"../a"} }),
		"an absolute path":      content(func(c *buildv1.PackageContent) { c.Files = []string{"/bin/a"} }),
		"an unprintable path":   content(func(c *buildv1.PackageContent) { c.Files = []string{"bin/\x1b[2J"} }),
		"a null byte":           content(func(c *buildv1.PackageContent) { c.About.Summary = "\x00" }),
		"a long path":           content(func(c *buildv1.PackageContent) { c.Files = []string{strings.Repeat("a", limits.IndexedPath+1)} }),
		"many files":            content(func(c *buildv1.PackageContent) { c.Files = make([]string, limits.IndexedFilesOfPackage+1) }),
		"a long summary":        content(func(c *buildv1.PackageContent) { c.About.Summary = strings.Repeat("a", limits.IndexedSummary+1) }),
		"a script as home":      content(func(c *buildv1.PackageContent) { c.About.Home = "javascript:alert(1)" }),
		"many packages":         {Ticket: ticket, Packages: make([]*buildv1.PackageContent, limits.IndexedPerCall+1)},
	} {
		if _, err := r.IndexPackages(t.Context(), req); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := r.IndexPackages(t.Context(), content(func(*buildv1.PackageContent) {})); err != nil {
		t.Errorf("a valid package: %v", err)
	}
	for _, ticket := range []string{"", "other"} {
		if _, err := r.IndexPackages(t.Context(), &buildv1.IndexPackagesRequest{Ticket: ticket}); !errors.Is(err, fault.NotFound) {
			t.Errorf("the ticket %q: %v", ticket, err)
		}
		if _, err := r.ListUnindexedPackages(t.Context(), &buildv1.ListUnindexedPackagesRequest{Ticket: ticket}); !errors.Is(err, fault.NotFound) {
			t.Errorf("the ticket %q: %v", ticket, err)
		}
	}
	for name, req := range map[string]*buildv1.FindPackagesRequest{
		"no path": {}, "an absolute path": {Path: "/bin/a"}, "a folder": {Path: "bin/"}, "many channels": {Path: "a", Channels: make([]string, limits.ChannelsAsked+1)},
	} {
		if _, err := r.FindPackages(t.Context(), req); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := r.SummarizePackages(t.Context(), &buildv1.SummarizePackagesRequest{Packages: make([]*buildv1.PackageName, limits.IndexedSummaries+1)}); !errors.Is(err, fault.Invalid) {
		t.Errorf("many packages: %v", err)
	}
}
