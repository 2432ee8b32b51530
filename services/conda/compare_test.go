package conda_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/conda/lockfile"
	"slipway.dev/services/internal/fault"
)

func lockFile(text, environment string) *condav1.LockFile {
	return &condav1.LockFile{Lock: base64.StdEncoding.EncodeToString([]byte(text)), EnvironmentName: environment}
}

func compareLocks(t *testing.T, service condav1.CondaServiceClient, from, to *condav1.LockFile) (*condav1.CompareLocksResponse, error) {
	t.Helper()
	return service.CompareLocks(t.Context(), &condav1.CompareLocksRequest{Locks: &condav1.TwoLocks{From: from, To: to}})
}

// explicit returns a list of linux-64 packages of a channel. The hash of a package consists of
// its last digit.
func explicit(channel string, files ...string) string {
	out := "# platform: linux-64\n@EXPLICIT\n"
	for _, f := range files {
		name, digit, ok := strings.Cut(f, "#")
		if !ok {
			digit = "1"
		}
		out += channel + "/linux-64/" + name + ".conda#" + strings.Repeat(digit, 32) + "\n"
	}
	return out
}

// changeText formats the changes of a platform.
func changeText(d *condav1.LockDifference) string {
	var out []string
	for _, c := range d.GetChanges() {
		out = append(out, fmt.Sprintf("%s %s:%s>%s%v", c.GetChange(), c.GetName(), c.GetOld().GetVersion(), c.GetNew().GetVersion(), c.GetDiffers()))
	}
	return strings.Join(out, " ")
}

func TestCompareLocks(t *testing.T) {
	t.Parallel()
	service, at := startOffline(t)
	const forge, mirror = "https://conda.anaconda.org/conda-forge", "https://mirror.example/conda-forge"
	got, err := compareLocks(t, service,
		lockFile(explicit(forge, "same-1-0", "gone-1-0", "up-1-0", "built-1-0", "moved-1-0", "other-1-0"), ""),
		lockFile(explicit(forge, "same-1-0", "new-2-0", "up-2-0", "built-1-1", "other-1-0#2")+explicit(mirror, "moved-1-0")[len("# platform: linux-64\n@EXPLICIT\n"):], ""))
	if err != nil {
		t.Fatal(err)
	}
	d := got.GetDifferences()[0]
	want := "changed built:1>1[build] removed gone:1>[] changed moved:1>1[channel] added new:>2[] changed other:1>1[file] changed up:1>2[version]"
	if text := changeText(d); text != want || d.GetPlatform() != "linux-64" || d.GetAdded() != 1 || d.GetRemoved() != 1 || d.GetChanged() != 4 || d.GetUnchanged() != 1 {
		t.Errorf("got %s\nwant %s\n%v", text, want, d)
	}
	byURL := func(name, environment string) *condav1.LockFile {
		return &condav1.LockFile{Url: at + "/locks/" + name, EnvironmentName: environment}
	}
	got, err = compareLocks(t, service, byURL("pixi.lock", ""), byURL("pixi.lock", "test"))
	if err != nil || len(got.GetDifferences()) != 2 || !strings.HasPrefix(changeText(got.GetDifferences()[0]), "added libffi:>3.4.2") || got.GetDifferences()[1].GetAdded() != 1 {
		t.Errorf("two environments of a pixi.lock: %v, %v", got, err)
	}
	got, err = compareLocks(t, service, lockFile(testLock(t, "explicit-python-linux-64.txt"), ""), lockFile("@EXPLICIT\n"+forge+"/noarch/tzdata-2024a-0.conda#"+strings.Repeat("1", 32)+"\n", ""))
	if err != nil || got.GetDifferences()[0].GetPlatform() != "linux-64" || got.GetDifferences()[0].GetRemoved() == 0 {
		t.Errorf("a list without a platform: %v, %v", got, err)
	}
	got, err = compareLocks(t, service, byURL("tests_test-install-with-pip-deps_conda-lock.yml", ""), lockFile(explicit(forge, "new-2-0"), ""))
	if err != nil || !strings.Contains(got.String(), `kind:"pypi"`) {
		t.Errorf("packages of PyPI are not compared: %.300v, %v", got, err)
	}
}

// TestFormatsAreComparable checks that a lock has no differences to itself in another format.
func TestFormatsAreComparable(t *testing.T) {
	t.Parallel()
	service, _ := startOffline(t)
	file, err := lockfile.Read(testLock(t, "pixi.lock"), "test")
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []lockfile.Format{lockfile.FormatCondaLock, lockfile.FormatPixi, lockfile.FormatExplicit, lockfile.FormatExplicitSHA256} {
		l := file
		if format.ForOnePlatform() {
			l.Platforms = l.Platforms[:1]
		}
		text, err := l.Text(format)
		if err != nil {
			t.Fatal(err)
		}
		got, err := compareLocks(t, service, lockFile(testLock(t, "pixi.lock"), "test"), lockFile(text, ""))
		if err != nil || len(got.GetDifferences()) != len(l.Platforms) || len(got.GetNotes()) != 2-len(l.Platforms) {
			t.Fatalf("%s: %v, %v", format, got, err)
		}
		for _, d := range got.GetDifferences() {
			if len(d.GetChanges()) > 0 || d.GetUnchanged() != 4 {
				t.Errorf("%s: %v", format, d)
			}
		}
	}
}

func TestCompareRefuses(t *testing.T) {
	t.Parallel()
	service, at := startOffline(t)
	good := lockFile(explicit("https://conda.anaconda.org/conda-forge", "a-1-0"), "")
	for name, c := range map[string]struct {
		from, to *condav1.LockFile
		why      string
	}{
		"a missing lock":          {good, nil, "to is missing"},
		"a lock and an address":   {&condav1.LockFile{Lock: "YQ==", Url: "https://h/l"}, good, "exclude each other"},
		"not base64":              {&condav1.LockFile{Lock: "!"}, good, "from.lock must be base64"},
		"an environment file":     {good, lockFile("dependencies: [a]\n", ""), "to.lock: the file is no lock"},
		"a lock that is too long": {lockFile(strings.Repeat("#", 2<<20), ""), good, "the maximum is"},
		"no such address":         {good, &condav1.LockFile{Url: at + "/locks/nothing"}, "to.url: the lock at"},
		"a private host":          {good, &condav1.LockFile{Url: "https://127.0.0.2:1/a"}, "not a public address"},
		"another platform":        {good, lockFile(strings.ReplaceAll(explicit("https://h/c", "a-1-0"), "linux-64", "osx-64"), ""), "no platform in common: the old lock has linux-64, the new lock osx-64"},
		"a missing environment":   {lockFile(testLock(t, "pixi.lock"), "gpu"), good, `from.lock: the lock has no environment "gpu"`},
		"an overlong address":     {&condav1.LockFile{Url: "https://h/" + strings.Repeat("a", 5000)}, good, "the maximum is"},
	} {
		got, err := compareLocks(t, service, c.from, c.to)
		f, ok := fault.As(err)
		if !ok || !errors.Is(err, fault.Invalid) || !strings.Contains(f.Public, c.why) {
			t.Errorf("%s: %v, %v, want %q", name, got, err, c.why)
		}
	}
}
