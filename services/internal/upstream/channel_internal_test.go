package upstream

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/internal/oci"
)

// TestParseChannelFile checks the repositories and tags of files of channels, as conda-oci-mirror and rattler
// name them.
func TestParseChannelFile(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"oci://ghcr.io/channel-mirrors/conda-forge/linux-64/repodata.json.zst":                     "ghcr.io/channel-mirrors/conda-forge/linux-64/repodata.json:latest application/vnd.conda.repodata.v1+json+zst",
		"oci://ghcr.io/channel-mirrors/conda-forge/noarch/repodata.json":                           "ghcr.io/channel-mirrors/conda-forge/noarch/repodata.json:latest application/vnd.conda.repodata.v1+json application/vnd.conda.repodata.v1+json+gzip",
		"oci://ghcr.io/channel-mirrors/conda-forge/linux-64/xtensor-0.25.0-h00ab1b0_0.conda":       "ghcr.io/channel-mirrors/conda-forge/linux-64/xtensor:0.25.0-h00ab1b0_0 application/vnd.conda.package.v2",
		"oci://ghcr.io/channel-mirrors/conda-forge/linux-64/_libgcc_mutex-0.1-conda_forge.tar.bz2": "ghcr.io/channel-mirrors/conda-forge/linux-64/zzz_libgcc_mutex:0.1-conda_forge application/vnd.conda.package.v1",
		"oci://ghcr.io/channel-mirrors/conda-forge/noarch/a-b-1!2.0+local-py_0.conda":              "ghcr.io/channel-mirrors/conda-forge/noarch/a-b:1__e__2.0__p__local-py_0 application/vnd.conda.package.v2",
		"oci://localhost:5000/lab/noarch/a-1-b=c_0.conda":                                          "localhost:5000/lab/noarch/a:1-b__eq__c_0 application/vnd.conda.package.v2",
		"oci://ghcr.io/linux-64/repodata.json":                                                     "",
		"oci://ghcr.io/lab/linux-64/repodata_shards.msgpack.zst":                                   "",
		"oci://ghcr.io/lab/linux-64/current_repodata.json":                                         "",
		"oci://ghcr.io/lab/linux-64/a-1.conda":                                                     "",
		"oci://ghcr.io/lab/linux-64/-1-0.conda":                                                    "",
		"oci://ghcr.io/lab/linux-64/a--0.conda":                                                    "",
		"oci://ghcr.io/lab/linux-64/a-1-.conda":                                                    "",
		"oci://ghcr.io/lab/linux-64/A-1-0.conda":                                                   "",
		"oci://ghcr.io/lab/linux-64/a_-1-0.conda":                                                  "",
		"oci://ghcr.io/lab/linux-64/a-1-" + strings.Repeat("x", 130) + ".conda":                    "",
		"oci://ghcr.io/lab/linux-64/a@sha256:x-1-0.conda":                                          "",
		"oci://ghcr.io/lab/../other/linux-64/a-1-0.conda":                                          "",
		"oci://u:p@ghcr.io/lab/linux-64/a-1-0.conda":                                               "",
		"oci://ghcr.io/lab/linux-64/a-1-0.conda?x":                                                 "",
		"oci://localhost/lab/linux-64/a%2Fb-1-0.conda":                                             "",
		"https://ghcr.io/lab/linux-64/a-1-0.conda":                                                 "",
		"oci://ghcr/lab/linux-64/a-1-0.conda":                                                      "",
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if f, ok := parseChannelFile(u); ok {
			got = f.repo.Host + "/" + f.repo.Name + ":" + f.tag + " " + strings.Join(f.types, " ")
		}
		if got != want {
			t.Errorf("%s is %q, want %q", address, got, want)
		}
	}
}

// FuzzParseChannelFile checks that a URL leads to a repository below the channel's own path, with a valid name
// and tag, or nowhere; and that two packages never have the same reference.
func FuzzParseChannelFile(f *testing.F) {
	f.Add("lab/linux-64/", "a-1-0.conda", "a-1-0.tar.bz2")
	f.Add("lab/noarch/", "_a-1!2+x-0.conda", "repodata.json.zst")
	f.Add("a/../b/noarch/", "..-1-0.conda", "repodata.json")
	f.Add("lab/noarch/", "zzz_a-1-0.conda", "_a-1-0.conda")
	f.Add("lab/noarch/", "a-1__p__2-0.conda", "a-1+2-0.conda")
	f.Fuzz(func(t *testing.T, folder, one, other string) {
		var found []channelFile
		for _, file := range []string{one, other} {
			u := &url.URL{Scheme: "oci", Host: "registry.example.org:5000", Path: "/" + folder + file}
			c, ok := parseChannelFile(u)
			if !ok {
				continue
			}
			if c.repo.Host != u.Host || !strings.HasPrefix("/"+c.repo.Name, u.Path[:strings.LastIndexByte(u.Path, '/')+1]) || slices.Contains(strings.Split(c.repo.Name, "/"), "..") || len(c.types) == 0 {
				t.Errorf("%q is %+v", u.Path, c)
			}
			if ref, err := oci.ParseReference(c.repo.Host + "/" + c.repo.Name + ":" + c.tag); err != nil || ref.Repository != c.repo.Name || ref.Tag != c.tag || ref.Digest != "" {
				t.Errorf("%q is %+v, %v", u.Path, c, err)
			}
			found = append(found, c)
		}
		if len(found) == 2 && one != other && found[0].repo == found[1].repo && found[0].tag == found[1].tag && slices.Equal(found[0].types, found[1].types) && !strings.Contains(one+other, "__") && !strings.Contains(one+other, "zzz_") {
			t.Errorf("%q and %q are both %+v", one, other, found[0])
		}
	})
}
