package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway.dev/services/internal/testkit"
)

// artifacts is a channel of real packages for all platforms, whose responses a test can
// replace.
type artifacts struct {
	*httptest.Server
	mu      sync.Mutex
	answers map[string]http.HandlerFunc // by file name
	fetched int                         // number of fetched packages
}

// artifactsDir is the folder of the packages.
const artifactsDir = "../conda/packages/artifact/testdata/packages"

func newArtifacts(t testing.TB) *artifacts {
	t.Helper()
	a := &artifacts{answers: map[string]http.HandlerFunc{}}
	list := repodataOf(t, map[string]map[string]any{
		"libcurl-8.4.0-h4e8248e_0.conda":          {"name": "libcurl", "version": "8.4.0", "build": "h4e8248e_0", "depends": []string{"libzlib >=1.2.13,<1.3", "c-ares"}},
		"libzlib-1.2.13-h31becfc_5.conda":         {"name": "libzlib", "version": "1.2.13", "build": "h31becfc_5"},
		"c-ares-1.21.0-h31becfc_0.conda":          {"name": "c-ares", "version": "1.21.0", "build": "h31becfc_0"},
		"libffi-3.4.2-h3557bc0_5.tar.bz2":         {"name": "libffi", "version": "3.4.2", "build": "h3557bc0_5"},
		"lz4-c-1.9.4-hd600fc2_0.conda":            {"name": "lz4-c", "version": "1.9.4", "build": "hd600fc2_0"},
		"libuuid-2.38.1-hb4cce97_0.conda":         {"name": "libuuid", "version": "2.38.1", "build": "hb4cce97_0"},
		"reproc-14.2.4.post0-h31becfc_1.conda":    {"name": "reproc", "version": "14.2.4.post0", "build": "h31becfc_1"},
		"link-scripts-0.1.0-h4616a5c_0.conda":     {"name": "link-scripts", "version": "0.1.0", "build": "h4616a5c_0"},
		"libedit-3.1.20191231-he28a2e2_2.tar.bz2": {"name": "libedit", "version": "3.1.20191231", "build": "he28a2e2_2"},
	})
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		file := filepath.Base(r.URL.Path)
		a.mu.Lock()
		answer := a.answers[file]
		if r.Method == http.MethodGet && (strings.HasSuffix(file, ".conda") || strings.HasSuffix(file, ".tar.bz2")) {
			a.fetched++
		}
		a.mu.Unlock()
		subdir := filepath.Base(filepath.Dir(r.URL.Path))
		switch {
		case subdir != "linux-64" && subdir != "linux-aarch64":
			http.NotFound(w, r)
		case answer != nil:
			answer(w, r)
		case file == "repodata.json":
			_, _ = w.Write(list)
		default:
			http.ServeFile(w, r, filepath.Join(artifactsDir, file))
		}
	}))
	t.Cleanup(a.Close)
	return a
}

// repodataOf returns repodata of packages with the sizes and hashes of their files.
func repodataOf(t testing.TB, packages map[string]map[string]any) []byte {
	t.Helper()
	old, current := map[string]any{}, map[string]any{}
	for file, rec := range packages {
		raw, err := os.ReadFile(filepath.Join(artifactsDir, file))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(raw)
		build, _ := rec["build"].(string)
		number, err := strconv.Atoi(build[strings.LastIndexByte(build, '_')+1:])
		if err != nil {
			t.Fatal(err)
		}
		rec["sha256"], rec["size"], rec["build_number"] = hex.EncodeToString(sum[:]), len(raw), number
		if rec["depends"] == nil {
			rec["depends"] = []string{}
		}
		if strings.HasSuffix(file, ".conda") {
			current[file] = rec
		} else {
			old[file] = rec
		}
	}
	out, err := json.Marshal(map[string]any{"packages": old, "packages.conda": current})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (a *artifacts) answer(file string, f http.HandlerFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers[file] = f
}

// fetches returns the number of package requests so far.
func (a *artifacts) fetches() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.fetched
}

// environment returns a request for packages of the channel lab on a base image.
func environment(base string, entries ...string) map[string]any {
	return map[string]any{"packages": map[string]any{
		"type": "CONDA", "entries": entries, "channels": []string{"lab"}, "condaOpts": map[string]any{"baseImage": base, "basePackages": ""},
	}}
}

// bare returns the settings of a service that cannot run build steps.
func bare(channel string) settings {
	return settings{"conda_channel_alias": channel, "conda_solve_wait": "20s", "runc_path": "/nowhere/runc"}
}

// layersOf returns the number of packages of an environment that exist as layers, and the total
// size of the other packages. A busy service may omit these numbers, so it retries.
func (p *program) layersOf(t *testing.T, entries ...string) (there int, missing int64) {
	t.Helper()
	query := map[string]any{"packages": map[string]any{"type": "CONDA", "entries": entries, "channels": []string{"lab"}}}
	testkit.Until(t, "what is there", func() error {
		var got struct {
			Locks []struct {
				KnownLayers  *int
				MissingBytes *int64
			}
		}
		r := p.call(http.MethodPost, "/v1alpha1/conda/lock", query)
		if err := json.Unmarshal(r.body, &got); err != nil || len(got.Locks) != 1 {
			t.Fatalf("the lock is %d, %s", r.status, r.body)
		}
		l := got.Locks[0]
		if l.KnownLayers == nil || l.MissingBytes == nil {
			return fmt.Errorf("the lock is %s", r.body)
		}
		there, missing = *l.KnownLayers, *l.MissingBytes
		return nil
	})
	return there, missing
}

// TestCondaImage builds images of Conda packages without running a container.
func TestCondaImage(t *testing.T) {
	t.Parallel()
	up, channel := testkit.NewRegistry(t, testkit.Open), newArtifacts(t)
	eachCopyShape(t, []string{up.Host}, bare(channel.URL), func(t *testing.T, p *program) {
		base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
		if there, missing := p.layersOf(t, "libcurl", "libffi"); there != 0 || missing == 0 {
			t.Errorf("before the first build, %d layers exist, and %d bytes are missing", there, missing)
		}
		first := p.order(environment(base, "libcurl"))
		if !strings.Contains(text(first, "targetImage"), ":libcurl-8.4.0--") {
			t.Errorf("the image name is %s", text(first, "targetImage"))
		}
		if s := p.finished(t, first); s["succeeded"] != true {
			t.Fatalf("the build ended as %v:\n%s", s, p.logOf(first))
		}
		img := pull(t, text(first, "targetImage"), "amd64")
		content := files(t, img)
		if len(p.procs) == 1 { // the other shape has the same digest
			p.judgeBuild(t, first, content, judged{channel: channel.URL + "/lab", more: "lz4-c"})
		}
		for _, path := range []string{"opt/conda/lib/libz.so.1.2.13", "opt/conda/conda-meta/libcurl-8.4.0-h4e8248e_0.json", "opt/conda/conda-meta/history"} {
			if content[path] == "" {
				t.Errorf("%s is not in the image", path)
			}
		}
		cf, err := img.ConfigFile()
		if err != nil || !strings.Contains(strings.Join(cf.Config.Env, "\n"), "PATH=/opt/conda/bin") {
			t.Errorf("variables %v, %v", cf.Config.Env, err)
		}
		if log := p.logOf(first); !strings.Contains(log, "0 of 3 packages exist") || !strings.Contains(log, "3 were sent") {
			t.Errorf("the log is %s", log)
		}
		there, missing := p.layersOf(t, "libcurl", "libffi")
		if info, err := os.Stat(filepath.Join(artifactsDir, "libffi-3.4.2-h3557bc0_5.tar.bz2")); err != nil || there != 3 || missing != info.Size() {
			t.Errorf("of libcurl and libffi %d layers exist, and %d bytes are missing; %v", there, missing, err)
		}
		// An equivalent request returns the same image; another environment pushes only its
		// missing layers.
		if again := p.order(environment(base, "libcurl=8", "lab::libcurl>=8.1")); again["cached"] != true || text(again, "buildId") != text(first, "buildId") {
			t.Errorf("an equivalent request got %v", again)
		}
		more := p.order(environment(base, "libffi", "libcurl"))
		if p.finished(t, more); !strings.Contains(p.logOf(more), "3 of 4 packages exist") && len(p.procs) == 1 {
			t.Errorf("the log of the second is %s", p.logOf(more))
		}
		both := environment(base, "libcurl")
		both["containerPlatform"] = "linux/amd64,linux/arm64"
		pair := p.order(both)
		if s := p.finished(t, pair); s["succeeded"] != true {
			t.Fatalf("for two platforms the build ended as %v", s)
		}
		arm := files(t, pull(t, text(pair, "targetImage"), "arm64"))
		if arm["opt/conda/lib/libz.so.1.2.13"] == "" {
			t.Error("the image for arm64 has no packages")
		}
		if len(p.procs) == 1 {
			folder := channel.URL + "/lab/linux-aarch64/"
			judge(t, arm, judged{channel: channel.URL + "/lab", more: "libffi", subdir: "linux-aarch64", packages: []string{
				folder + "c-ares-1.21.0-h31becfc_0.conda", folder + "libcurl-8.4.0-h4e8248e_0.conda", folder + "libzlib-1.2.13-h31becfc_5.conda",
			}})
		}
	})
}

// piecemeal serves an artifact in ten parts, and calls between after each part.
func piecemeal(t *testing.T, w http.ResponseWriter, r *http.Request, file string, between func()) {
	raw, err := os.ReadFile(filepath.Join(artifactsDir, file))
	if err != nil {
		t.Error(err)
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	for part := range slices.Chunk(raw, len(raw)/10+1) {
		_, _ = w.Write(part)
		_ = http.NewResponseController(w).Flush()
		between()
	}
}

// TestCondaImageFails checks that the build fails with the reason if no image can be built.
func TestCondaImageFails(t *testing.T) {
	leaveToServers(t)
	t.Parallel()
	up, channel := testkit.NewRegistry(t, testkit.Open), newArtifacts(t)
	eachCopyShape(t, []string{up.Host}, bare(channel.URL), func(t *testing.T, p *program) {
		base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
		channel.answer("lz4-c-1.9.4-hd600fc2_0.conda", func(w http.ResponseWriter, r *http.Request) {
			raw, err := os.ReadFile(filepath.Join(artifactsDir, "lz4-c-1.9.4-hd600fc2_0.conda"))
			if err != nil {
				t.Error(err)
			}
			raw[len(raw)/2] ^= 1
			_, _ = w.Write(raw)
		})
		channel.answer("libuuid-2.38.1-hb4cce97_0.conda", func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) })
		var once sync.Once
		channel.answer("reproc-14.2.4.post0-h31becfc_1.conda", func(w http.ResponseWriter, r *http.Request) {
			failed := false
			once.Do(func() { failed = true })
			if failed {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			http.ServeFile(w, r, filepath.Join(artifactsDir, "reproc-14.2.4.post0-h31becfc_1.conda"))
		})
		var halves sync.Once
		channel.answer("libedit-3.1.20191231-he28a2e2_2.tar.bz2", func(w http.ResponseWriter, r *http.Request) {
			piecemeal(t, w, r, "libedit-3.1.20191231-he28a2e2_2.tar.bz2", func() { halves.Do(func() { panic(http.ErrAbortHandler) }) })
		})
		channel.answer("libffi-3.4.2-h3557bc0_5.tar.bz2", func(w http.ResponseWriter, r *http.Request) {
			piecemeal(t, w, r, "libffi-3.4.2-h3557bc0_5.tar.bz2", func() { <-time.After(50 * time.Millisecond) })
		})
		for name, why := range map[string]string{
			"libedit": "", "libffi": "", // served truncated, and slowly
			"lz4-c":        "The artifact lz4-c-1.9.4-hd600fc2_0.conda does not match the lock",
			"libuuid":      "The artifact libuuid-2.38.1-hb4cce97_0.conda could not be fetched",
			"link-scripts": "The package link-scripts 0.1.0 h4616a5c_0 runs a script when it is installed",
			"reproc":       "",
		} {
			answer := p.order(environment(base, name))
			s := p.finished(t, answer)
			b := p.call(http.MethodGet, "/v1alpha1/builds/"+text(answer, "buildId"), nil).json(t)
			if s["succeeded"] != (why == "") || !strings.Contains(text(b, "message"), why) || (why != "") != (text(b, "reasonCode") == "build") {
				t.Errorf("%s ended as %v, and its build as %v", name, s, b)
			}
		}
		for field, value := range map[string]any{"commands": []string{"RUN true"}, "mambaImage": base} {
			steps := environment(base, "libffi")
			steps["packages"].(map[string]any)["condaOpts"].(map[string]any)[field] = value
			if r := p.call(http.MethodPost, "/v1alpha2/container", steps); r.status != http.StatusNotImplemented || !strings.Contains(string(r.body), "because of packages.condaOpts."+field) {
				t.Errorf("%s got %d %s", field, r.status, r.body)
			}
		}
	})
}
