package conda_test

import (
	"slices"
	"strings"
	"testing"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/builder/jobs"
)

// TestPackagesAreIndexed checks that a build reports the packages that the index lacks, and
// succeeds if the index is unavailable.
func TestPackagesAreIndexed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	lock := b.curl()
	curl := lock[1].SHA256
	b.service.Unindexed = []string{curl, strings.Repeat("0", 64)}
	e := b.engine(t.TempDir())
	build := func() string {
		t.Helper()
		out := &lines{}
		if _, err := e.Build(t.Context(), b.job(lock, func(j *jobs.Job) { j.Ticket = "ticket" }), out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if log := build(); strings.Contains(log, "index") {
		t.Errorf("the log is %s", log)
	}
	b.service.Mu.Lock()
	got := b.service.Indexed
	b.service.IndexDown = true
	b.service.Mu.Unlock()
	if len(got) != 1 || got[0].GetSha256() != curl {
		t.Fatalf("reported are %v", got)
	}
	checkCurl(t, got[0])
	if log := build(); !strings.Contains(log, "could not be added to the index for searches") {
		t.Errorf("without the index the log is %s", log)
	}
}

// checkCurl checks the content of the package libcurl.
func checkCurl(t *testing.T, p *buildv1.PackageContent) {
	t.Helper()
	files := p.GetFiles()
	if len(files) == 0 || files[0] != "bin/curl-config" || !slices.Contains(files, "lib/libcurl.so.4") || !slices.Contains(files, "include/curl/curl.h") {
		t.Errorf("the files are %v", files)
	}
	if slices.ContainsFunc(files, func(name string) bool { return strings.HasPrefix(name, "conda-meta/") || strings.HasSuffix(name, "/") }) {
		t.Errorf("folders or records are among the files %v", files)
	}
	if about := p.GetAbout(); about.GetSummary() == "" || about.GetHome() != "http://curl.haxx.se/" || about.GetLicense() != "curl" {
		t.Errorf("it is described as %v", about)
	}
}
