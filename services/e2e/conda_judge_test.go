package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// A judged describes what other tools must find in the environment of an image.
type judged struct {
	// packages are the URLs of the lock's packages, wheels are "name-version".
	packages, wheels []string
	// channel is the URL of a channel, and more a package of the channel that is not in the
	// environment. If channel is set, conda plans to install more.
	channel, more string
	// subdir is the platform of the image; "linux-64" if it is empty.
	subdir string
}

// judge reads the environment of an image with other tools: py-rattler reads each record
// with its files, conda lists the packages, as names and as URLs, and plans to install another
// package without changing any of the others.
func judge(t *testing.T, content map[string]string, want judged) {
	t.Helper()
	slices.Sort(want.packages)
	slices.Sort(want.wheels)
	t.Run("judges", func(t *testing.T) {
		oracle, err := judges()
		if err != nil {
			t.Skip("NOT JUDGED: neither conda nor py-rattler reads this environment, since they cannot be installed:", err)
		}
		want.check(t, readByJudges(t, oracle, writePrefix(t, content), want))
	})
}

// judges returns the folder of conda and py-rattler. They are installed into the user's cache
// the first time.
var judges = sync.OnceValues(func() (string, error) {
	const script = "../tools/oracle/install.sh"
	text, err := os.ReadFile(script)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	folder := filepath.Join(cache, "slipway-e2e", "judges-"+hex.EncodeToString(sum[:4]))
	if err := os.MkdirAll(filepath.Dir(folder), 0o700); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(folder+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(folder, "installed")); err == nil {
		return folder, nil
	}
	artifacts, err := filepath.Glob("testdata/judge/conda-*.conda")
	if err != nil || len(artifacts) != 1 {
		return "", fmt.Errorf("the artifact of conda is %q: %w", artifacts, err)
	}
	if out, err := exec.Command("sh", script, artifacts[0], folder).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, tail(string(out), 1000))
	}
	return folder, nil
})

// writePrefix writes the metadata of an environment, and returns its prefix.
func writePrefix(t *testing.T, content map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range content {
		if !strings.HasPrefix(name, "opt/conda/") || strings.HasSuffix(name, "/") ||
			!strings.HasPrefix(name, "opt/conda/conda-meta/") && !strings.Contains(name, ".dist-info/") {
			continue
		}
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(root, "opt", "conda")
}

// A judgement is what testdata/judge/judge.py prints.
type judgement struct {
	Rattler             []string
	Explicit, Revisions string
	List                []struct {
		Name, Version, Channel string
		Build                  string `json:"build_string"`
	}
	Plan struct{ Link, Unlink []struct{ Name string } }
}

func readByJudges(t *testing.T, oracle, prefix string, want judged) (got judgement) {
	t.Helper()
	query, err := json.Marshal(map[string]string{"Prefix": prefix, "Channel": want.channel, "More": want.more})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(oracle, "venv", "bin", "python"), "testdata/judge/judge.py")
	cmd.Stdin = bytes.NewReader(query)
	var errs strings.Builder
	cmd.Stderr = &errs
	subdir := want.subdir
	if subdir == "" {
		subdir = "linux-64"
	}
	cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(oracle, "conda"), "CONDA_PKGS_DIRS="+t.TempDir(), "CONDARC=/dev/null", "HOME="+t.TempDir(),
		"CONDA_SOLVER=classic", "CONDA_SAT_SOLVER=pysat", "CONDA_SUBDIR="+subdir, "CONDA_ALLOW_NON_CHANNEL_URLS=true", "CONDA_NOTIFY_OUTDATED_CONDA=false", "CONDA_REPORT_ERRORS=false",
		"CONDA_ADD_PIP_AS_PYTHON_DEPENDENCY=false", // these channels have no pip
		// The packages do not depend on CUDA, and a process that detects it takes as long as the rest. Python
		// compiles conda only once if it may write the result.
		"CONDA_OVERRIDE_CUDA=", "PYTHONDONTWRITEBYTECODE=")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("they cannot read the environment: %v\n%s%s", err, tail(string(out), 3000), tail(errs.String(), 3000))
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err, string(out))
	}
	return got
}

// check compares a judgement with the expected packages.
func (want judged) check(t *testing.T, got judgement) {
	t.Helper()
	slices.Sort(got.Rattler)
	if !slices.Equal(got.Rattler, want.packages) {
		t.Errorf("py-rattler reads %q, want %q", got.Rattler, want.packages)
	}
	var names, rows, wheels []string
	for _, url := range want.packages {
		names = append(names, strings.TrimSuffix(strings.TrimSuffix(filepath.Base(url), ".conda"), ".tar.bz2"))
	}
	for _, l := range got.List {
		if l.Channel == "pypi" {
			wheels = append(wheels, l.Name+"-"+l.Version)
		} else {
			rows = append(rows, l.Name+"-"+l.Version+"-"+l.Build)
		}
	}
	slices.Sort(names)
	slices.Sort(rows)
	slices.Sort(wheels)
	if !slices.Equal(rows, names) || !slices.Equal(wheels, want.wheels) {
		t.Errorf("conda list prints %q and of PyPI %q, want %q and %q", rows, wheels, names, want.wheels)
	}
	_, urls, _ := strings.Cut(got.Explicit, "@EXPLICIT\n")
	var explicit []string
	for line := range strings.Lines(urls) {
		if !strings.HasPrefix(line, "#") { // a wheel, which has no URL
			explicit = append(explicit, strings.TrimSpace(line))
		}
	}
	if slices.Sort(explicit); !slices.Equal(explicit, want.packages) {
		t.Errorf("conda list --explicit prints %q, want %q", explicit, want.packages)
	}
	if !strings.Contains(got.Revisions, "(rev 0)") {
		t.Errorf("conda list --revisions prints %q", got.Revisions)
	}
	if want.more == "" {
		return
	}
	var added []string
	for _, l := range got.Plan.Link {
		added = append(added, l.Name)
	}
	if !slices.Equal(added, []string{want.more}) || len(got.Plan.Unlink) != 0 {
		t.Errorf("conda install --dry-run %s adds %q and removes %v", want.more, added, got.Plan.Unlink)
	}
}

// judgeBuild judges the image of a build: the environment is that of the build's lock.
func (p *program) judgeBuild(t *testing.T, answer map[string]any, content map[string]string, want judged) {
	t.Helper()
	lock := string(p.call("GET", "/v1alpha1/builds/"+text(answer, "buildId")+"/lock?format=explicit", nil).body)
	_, urls, ok := strings.Cut(lock, "@EXPLICIT\n")
	if !ok {
		t.Fatalf("the lock of the build is %s", lock)
	}
	for line := range strings.FieldsSeq(urls) {
		url, _, _ := strings.Cut(line, "#")
		want.packages = append(want.packages, url)
	}
	judge(t, content, want)
}
