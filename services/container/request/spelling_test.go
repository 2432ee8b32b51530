package request_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/conda"
	"slipway.dev/services/container/request"
)

func nobodys(string, string) bool { return false }

// TestTimestampsOfISO8601 checks week dates, which Go's time package cannot read.
func TestTimestampsOfISO8601(t *testing.T) {
	t.Parallel()
	for text, valid := range map[string]bool{
		"2026-W05-6": true, "2026W056": true, "2026-W05-6T12:00:00Z": true, "2026W056T120000+0100": true, "2020-W53-7": true,
		"2026-W53-7": true, "2025-W53-1": false, "2026-W54-1": false, "2026-W00-1": false, "2026-W05-8": false, "2026-W056": false, "2026W05-6": false,
		"2026-W05": false, "2026-01-31": true, "2026-031": true, "2026-W05-6T25:00": false,
	} {
		_, err := request.Parse(&containerv1.ContainerRequest{ContainerImage: "ubuntu", Timestamp: text}, nobodys)
		if (err == nil) != valid {
			t.Errorf("%s: %v", text, err)
		}
	}
	// Compare with the calendar of the standard library: the week date of each day of 30 years.
	for day := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() < 2030; day = day.AddDate(0, 0, 1) {
		year, week := day.ISOWeek()
		text := request.CalendarDate(fmt.Sprintf("%04d-W%02d-%d", year, week, (int(day.Weekday())+6)%7+1))
		if want := day.Format(time.DateOnly); text != want {
			t.Fatalf("%d-W%02d is read as %s, want %s", year, week, text, want)
		}
	}
}

// TestDataURLs checks that the content of a layer can have a media type, as data URLs do.
func TestDataURLs(t *testing.T) {
	t.Parallel()
	for location, want := range map[string]string{
		"data:AAAA": "AAAA", "data:application/vnd.oci.image.layer.v1.tar+gzip;base64,AAAA": "AAAA", "data:;base64,AAAA": "AAAA",
		"DATA:text/plain;charset=utf-8;BASE64,AAAA": "AAAA", "data:application/gzip,AAAA": "", "data:,AAAA": "",
	} {
		got, err := request.DataOf(location)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", location, got, err)
		}
		l := &containerv1.Layer{Location: location, GzipSize: proto.Int64(3), GzipDigest: "sha256:" + strings.Repeat("A", 64), TarDigest: "SHA256:" + strings.Repeat("b", 64)}
		raw := &containerv1.ContainerRequest{ContainerImage: "ubuntu", ContainerConfig: &containerv1.ContainerConfig{Layers: []*containerv1.Layer{l}}, BuildContext: proto.CloneOf(l)}
		r, err := request.Parse(raw, nobodys)
		if (err == nil) != (want != "") {
			t.Errorf("%s in a request: %v", location, err)
		}
		for _, read := range []*containerv1.Layer{r.Raw.GetContainerConfig().GetLayers()[0], r.Raw.GetBuildContext()} {
			if read.GetGzipDigest() != "sha256:"+strings.Repeat("a", 64) || read.GetTarDigest() != "sha256:"+strings.Repeat("b", 64) {
				t.Errorf("digests are read as %s and %s", read.GetGzipDigest(), read.GetTarDigest())
			}
		}
		if l.GetTarDigest() != "SHA256:"+strings.Repeat("b", 64) {
			t.Error("the caller's message was changed")
		}
	}
}

// TestErrorsNameTheCommand checks that an error in condaOpts.commands names the command, and
// not a line of the generated Dockerfile.
func TestErrorsNameTheCommand(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		commands []string
		want     string
	}{
		"one":            {[]string{"echo hi"}, `packages.condaOpts.commands[0]: unknown instruction: echo`},
		"the third":      {[]string{"RUN true", "RUN true && \\\n  true", "eco hi"}, `packages.condaOpts.commands[2]: unknown instruction: eco`},
		"of two lines":   {[]string{"RUN true", "RUN x\nnope"}, `packages.condaOpts.commands[1]: unknown instruction: nope`},
		"a missing word": {[]string{"ENV"}, `packages.condaOpts.commands[0]: ENV requires`},
	} {
		for _, template := range []string{"", "conda/micromamba:v2"} {
			r, err := request.Parse(&containerv1.ContainerRequest{BuildTemplate: template, Packages: &containerv1.Packages{
				Type: "CONDA", Entries: []string{"bwa"}, CondaOpts: &containerv1.CondaOptions{Commands: tc.commands},
			}}, nobodys)
			if err != nil {
				t.Fatal(err)
			}
			_, err = r.ReadPackages(r.Raw.GetPackages(), conda.Defaults{}, time.Now())
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "line ") && !strings.Contains(err.Error(), "Each command is a line") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestWithoutEffect checks that unsupported options are accepted with a note if the image
// works without them.
func TestWithoutEffect(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]*containerv1.ContainerRequest{
		"":                        {ContainerImage: "ubuntu", ScanMode: "none"},
		"gets no SOCI index":      {ContainerImage: "ubuntu", Soci: true},
		"it is pulled as a whole": {ContainerImage: "ubuntu", Soci: true, ScanMode: "async", ScanLevels: []string{"low", "MEDIUM"}},
		"a Singularity image":     {ContainerImage: "ubuntu", Soci: true, Format: "sif"},
		"a copy of its source":    {ContainerImage: "ubuntu", Soci: true, Mirror: true, BuildRepository: "q.example/a"},
	} {
		_, err := request.Parse(r, nobodys)
		if got := request.WithoutEffect(r); err != nil || !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%v: %q, %v", r, got, err)
		}
	}
}
