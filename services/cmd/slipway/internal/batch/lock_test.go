package batch

import (
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/internal/limits"
)

const pixiLock = "version: 6\nenvironments: {}\n"

func TestLockFileIsStable(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "slipway.lock")
	if l, err := readLock(path); err != nil || l.Version != 0 {
		t.Fatalf("without a file: %v, %v", l, err)
	}
	l := lockFile{Version: lockVersion, Containers: []locked{{Name: "a", Lock: digestOf([]byte(pixiLock))}}, Locks: map[string]string{digestOf([]byte(pixiLock)): pixiLock}}
	if err := l.write(path); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := readLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.write(path); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("an unchanged lock file was replaced: %v", err)
	}
}

func TestLockFileRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`[]`:             "not a lock file",
		`{"version": 2}`: "its version is 2",
		`{"version": 1, "containers": [{"name": "a", "lock": "sha256:00"}], "locks": {"sha256:00": "x"}}`: `the lock of "a" is missing or was changed`,
	} {
		if _, err := parseLock([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// FuzzParseLock checks that the locks of an accepted file are those that its containers name.
func FuzzParseLock(f *testing.F) {
	f.Add([]byte(`{"version": 1, "containers": [{"name": "a", "request": "sha256:00", "digest": "sha256:00"}], "locks": {}}`))
	f.Add([]byte(`{"version": 1, "containers": null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, err := parseLock(raw)
		if err != nil {
			return
		}
		for _, c := range l.Containers {
			if text, ok := l.Locks[c.Lock]; c.Lock != "" && (!ok || digestOf([]byte(text)) != c.Lock) {
				t.Errorf("%q has the lock %q", c.Name, c.Lock)
			}
			if r := l.apply(c, &containerv1.ContainerRequest{ContainerImage: "h/a:1"}); c.Lock == "" && !strings.HasPrefix(r.GetContainerImage(), "h/a") {
				t.Errorf("the image is %q", r.GetContainerImage())
			}
		}
	})
}

func TestRequestOfLock(t *testing.T) {
	t.Parallel()
	id := digestOf([]byte(pixiLock))
	l := lockFile{Locks: map[string]string{id: pixiLock}}
	packages := &containerv1.ContainerRequest{
		Packages: &containerv1.Packages{Type: "CONDA", Entries: []string{"bwa"}, Channels: []string{"lab"}, CondaOpts: &containerv1.CondaOptions{BaseImage: "debian"}},
		MinAge:   "7d", Freeze: true,
	}
	want := &containerv1.ContainerRequest{
		Packages: &containerv1.Packages{Type: "CONDA", Environment: base64.StdEncoding.EncodeToString([]byte(pixiLock)), CondaOpts: &containerv1.CondaOptions{BaseImage: "debian"}},
		Freeze:   true,
	}
	if got := l.apply(locked{Lock: id, Digest: "sha256:00"}, packages); !proto.Equal(got, want) {
		t.Errorf("packages are %v", got)
	}
	for image, want := range map[string]string{
		"localhost:5000/a": "localhost:5000/a@sha256:00", "ubuntu:24.04": "ubuntu@sha256:00", "a@sha256:11": "a@sha256:11",
	} {
		if got := l.apply(locked{Digest: "sha256:00"}, &containerv1.ContainerRequest{ContainerImage: image}); got.GetContainerImage() != want {
			t.Errorf("%s is %s", image, got.GetContainerImage())
		}
	}
}

// TestRequestDigest checks that the digest depends on what is requested, not on who requests it.
func TestRequestDigest(t *testing.T) {
	t.Parallel()
	image := &containerv1.ContainerRequest{ContainerImage: "a"}
	mine := &containerv1.ContainerRequest{ContainerImage: "a", PlatformAccessToken: "secret", PlatformWorkspaceId: proto.Int64(7)}
	other := &containerv1.ContainerRequest{ContainerImage: "a", ContainerPlatform: "linux/arm64"}
	if requestDigest(image) == "" || requestDigest(image) != requestDigest(mine) || requestDigest(image) == requestDigest(other) {
		t.Errorf("%s, %s, %s", requestDigest(image), requestDigest(mine), requestDigest(other))
	}
}

// TestFindRecord checks that a record is found by its request, and first by its name.
func TestFindRecord(t *testing.T) {
	t.Parallel()
	one, two := &containerv1.ContainerRequest{ContainerImage: "one"}, &containerv1.ContainerRequest{ContainerImage: "two"}
	l := lockFile{Containers: []locked{
		{Name: "in:1", Request: requestDigest(one), Digest: "sha256:01"}, {Name: "in:2", Request: requestDigest(two), Digest: "sha256:02"},
		{Name: "b", Request: requestDigest(two), Digest: "sha256:03"},
	}}
	for _, tc := range []struct {
		name    string
		request *containerv1.ContainerRequest
		want    string
	}{
		{"in:1", one, "sha256:01"}, {"in:2", one, "sha256:01"}, {"b", two, "sha256:03"}, {"c", two, "sha256:02"},
		{"in:1", &containerv1.ContainerRequest{ContainerImage: "three"}, ""},
	} {
		if got, ok := l.find(tc.name, tc.request); got.Digest != tc.want || ok != (tc.want != "") || got.Name != tc.name {
			t.Errorf("%s %s is %+v", tc.name, tc.request.GetContainerImage(), got)
		}
	}
}

// TestLockKeepsRecords checks that the records of other inputs, and of containers that failed, stay.
func TestLockKeepsRecords(t *testing.T) {
	t.Parallel()
	request := func(image string) *containerv1.ContainerRequest {
		return &containerv1.ContainerRequest{ContainerImage: image}
	}
	id := digestOf([]byte(pixiLock))
	old := lockFile{Locks: map[string]string{id: pixiLock}, Containers: []locked{
		{Name: "other", Request: "sha256:00", Lock: id}, {Name: "failed", Request: requestDigest(request("a")), Digest: "sha256:01"},
	}}
	r := newRun(nil, newProgress(io.Discard, false, 3))
	for _, name := range []string{"failed", "new"} { // as with --update
		r.add(entry{name: name}, request("a"), lockFile{})
	}
	r.add(entry{name: "unreadable", err: errNoContainer}, request("b"), lockFile{})
	r.all[1].result, r.all[1].record = &containerv1.ContainerResult{}, locked{Name: "new", Request: requestDigest(request("a")), Digest: "sha256:02"}
	r.giveUp(errNoContainer)
	got := r.lock(old)
	var names []string
	for _, c := range got.Containers {
		names = append(names, c.Name+" "+c.Digest)
	}
	if !slices.Equal(names, []string{"failed sha256:01", "new sha256:02", "other "}) || got.Locks[id] != pixiLock {
		t.Errorf("the lock file has %q and %v", names, got.Locks)
	}
	if failed, building := r.incomplete(); failed != 2 || building != 0 {
		t.Errorf("%d failed, %d are built", failed, building)
	}
}

// TestIsLockable checks requests whose build has a lock without something that they describe.
func TestIsLockable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"dependencies:\n- bwa\n": true, "dependencies:\n- pip\n- bwa\n": true, "": true,
		"dependencies:\n- pip:\n  - requests\n": false, "dependencies:\n  -  'pip' : [requests]\n": false, "variables:\n  A: b\n": false,
		"[pypi-dependencies]\nrequests = '*'\n": false, "[feature.a.activation.env]\nA = 'b'\n": false, "[activation]\nscripts = ['a']\n": false,
	} {
		if got := isLockable(environmentRequest([]byte(text))); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
	if isLockable(&containerv1.ContainerRequest{Packages: &containerv1.Packages{Type: "CRAN", Entries: []string{"dplyr"}}}) {
		t.Error("R packages")
	}
}

// TestLockBounds checks that a lock file with very many short values is not decoded.
func TestLockBounds(t *testing.T) {
	t.Parallel()
	list := "[" + strings.Repeat("{},", limits.LockRecords) + "{}]"
	var locks strings.Builder
	for n := range limits.LockRecords + 1 {
		fmt.Fprintf(&locks, `,"%d":""`, n)
	}
	for _, text := range []string{
		`{"version":1,"containers":` + list + `}`,
		`{"version":1,"locks":{` + locks.String()[1:] + `}}`,
		`{"version":1,"containers":[{"name":"` + strings.Repeat("x", limits.LockRecordBytes) + `"}]}`,
	} {
		if _, err := parseLock([]byte(text)); err == nil || !strings.Contains(err.Error(), "more than") && !strings.Contains(err.Error(), "larger than") {
			t.Errorf("%.40s: %v", text, err)
		}
	}
	path := filepath.Join(t.TempDir(), "slipway.lock")
	if err := (lockFile{Version: lockVersion, Containers: make([]locked, limits.LockRecords+1)}).write(path); err == nil || !strings.Contains(err.Error(), "give another --lock") {
		t.Errorf("a lock file that cannot be read was written: %v", err)
	}
	if l, err := parseLock([]byte(`{"version":1,"containers":[{}],"locks":null}`)); err != nil || len(l.Containers) != 1 {
		t.Errorf("got %+v, %v", l, err)
	}
}
