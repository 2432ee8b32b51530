package batch

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/cmd/slipway/internal/file"
	"slipway.dev/services/internal/limits"
)

// lockVersion is the version of the format of lock files.
const lockVersion = 1

// maxLock is the maximum size of a lock file in bytes: the locks of some thousand environments.
const maxLock = 512 << 20

// A lockFile records what containers were made of. The zero value is that of no run.
type lockFile struct {
	Version int `json:"version"`
	// Containers are sorted by name.
	Containers lockedList `json:"containers"`
	// Locks are the locks of packages, as pixi.lock, by their digests "sha256:<hex>".
	Locks lockedTexts `json:"locks"`
}

// A lockedList is a list of records, and lockedTexts are locks of packages. Both are decoded with bounds.
type (
	lockedList  []locked
	lockedTexts map[string]string
)

// UnmarshalJSON decodes a list of records.
func (l *lockedList) UnmarshalJSON(raw []byte) (err error) {
	if len(raw) > limits.LockRecordBytes {
		return fmt.Errorf("its records are larger than %d bytes", limits.LockRecordBytes)
	}
	*l, err = file.List[locked](raw, limits.LockRecords)
	return err
}

// UnmarshalJSON decodes locks of packages.
func (l *lockedTexts) UnmarshalJSON(raw []byte) (err error) {
	*l, err = file.Map[string](raw, limits.LockRecords)
	return err
}

// locked is the record of one container.
type locked struct {
	Name string `json:"name"`
	// Process reports whether the name is that of a process of Nextflow.
	Process bool `json:"process,omitempty"`
	// Request is the digest of the request; if it has changed, the record is not
	// used.
	Request string `json:"request"`
	// Image is the image that the name refers to, without a token.
	Image string `json:"image,omitempty"`
	// Digest is the digest of the image; absent until it is built.
	Digest string `json:"digest,omitempty"`
	// Lock is a key of Locks; absent for images without Conda packages, and until they are solved.
	Lock string `json:"lock,omitempty"`
	// Options is the digest of what the request has besides packages or an image, such as a base
	// image; absent for nothing.
	Options string `json:"options,omitempty"`
	// Format is "sif" for a Singularity image, "environment" for an environment without an image; absent for other images.
	Format string `json:"format,omitempty"`
	// Added reports whether the request adds something to the image of the digest.
	Added bool `json:"added,omitempty"`
}

// isSif reports whether a record is that of a Singularity image. Earlier versions recorded no format.
func (c locked) isSif() bool { return c.Format == formatSif || strings.HasPrefix(c.Image, orasScheme) }

// replaces reports whether a record replaces another one. A lock file can record both an image and a Singularity
// image of one container.
func (c locked) replaces(other locked) bool {
	return c.Name == other.Name && c.isSif() == other.isSif()
}

// compare orders records.
func (c locked) compare(other locked) int {
	return cmp.Or(cmp.Compare(c.Name, other.Name), cmp.Compare(c.Format, other.Format))
}

// readLock reads a lock file. The path "", and that of no file, have the zero value.
func readLock(path string) (lockFile, error) {
	if path == "" {
		return lockFile{}, nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return lockFile{}, nil
	}
	if err != nil {
		return lockFile{}, fmt.Errorf("reading the lock file: %w", err)
	}
	defer f.Close()
	raw, err := limited(f, maxLock)
	if err != nil {
		return lockFile{}, fmt.Errorf("reading %s: %w", path, err)
	}
	l, err := parseLock(raw)
	if err != nil {
		return lockFile{}, fmt.Errorf("reading %s: %w; delete it, or give another --lock", path, err)
	}
	return l, nil
}

func parseLock(raw []byte) (lockFile, error) {
	var l lockFile
	if err := json.Unmarshal(raw, &l); err != nil {
		return l, fmt.Errorf("it is not a lock file of slipway batch: %w", err)
	}
	if l.Version != lockVersion {
		return l, fmt.Errorf("its version is %d, and this program reads version %d", l.Version, lockVersion)
	}
	for _, c := range l.Containers {
		if c.Lock != "" && digestOf([]byte(l.Locks[c.Lock])) != c.Lock {
			return l, fmt.Errorf("the lock of %q is missing or was changed", c.Name)
		}
	}
	return l, nil
}

// find returns the record of a request, preferably with its name: names of lines of JSON, for example,
// change when a line is added.
func (l lockFile) find(name string, request *containerv1.ContainerRequest) (found locked, ok bool) {
	want := requestDigest(request)
	for _, c := range l.Containers {
		if c.Request == want && want != "" && (!ok || c.Name == name) {
			found, ok = c, true
		}
	}
	found.Name = name
	return found, ok
}

// with returns the lock file with further records of locks that it has.
func (l lockFile) with(more []locked) lockFile {
	for _, c := range more {
		if _, ok := l.Locks[c.Lock]; ok || c.Lock == "" {
			l.Containers = slices.DeleteFunc(l.Containers, c.replaces)
			l.Containers = append(l.Containers, c)
		}
	}
	slices.SortFunc(l.Containers, locked.compare)
	return l
}

// ofLock returns the defaults for requests that have a lock, which determines the packages.
func ofLock(defaults *containerv1.ContainerRequest) *containerv1.ContainerRequest {
	out := proto.CloneOf(defaults)
	out.AsOf, out.MinAge, out.MinAgeExcept, out.Refresh = "", "", nil, false
	if p := out.GetPackages(); p != nil {
		p.Entries, p.Channels, p.EnvironmentName = nil, nil, ""
	}
	return out
}

// unlockable matches what the lock of a build does not have: packages of PyPI, and variables.
var unlockable = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^\s*-?\s*["']?pip["']?\s*:|^variables\s*:|pypi-dependencies|^\s*\[[^]]*activation`)
})

// isLockable reports whether the lock of a build has everything that its request describes. R packages
// may be built from source, and an image of other requests is recorded by its digest only.
func isLockable(r *containerv1.ContainerRequest) bool {
	if r.GetPackages().GetType() == "CRAN" {
		return false
	}
	text := r.GetPackages().GetEnvironment()
	if text == "" {
		text = r.GetCondaFile()
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		raw, err = base64.URLEncoding.DecodeString(text)
	}
	return err == nil && !unlockable().Match(raw)
}

// apply returns the request for the packages and the image that a record has.
func (l lockFile) apply(c locked, request *containerv1.ContainerRequest) *containerv1.ContainerRequest {
	r := proto.CloneOf(request)
	switch {
	case c.Lock != "":
		if r.GetPackages() == nil {
			r.Packages = &containerv1.Packages{Type: "CONDA"}
		}
		p := r.GetPackages()
		p.Entries, p.Channels, p.EnvironmentName = nil, nil, ""
		p.Environment = base64.StdEncoding.EncodeToString([]byte(l.Locks[c.Lock]))
		r.CondaFile, r.AsOf, r.MinAge, r.MinAgeExcept, r.Refresh = "", "", "", nil, false
	case c.Digest != "" && !c.isSif() && r.GetContainerImage() != "" && !r.GetMirror() && !strings.Contains(r.GetContainerImage(), "@"):
		r.ContainerImage = withoutTag(r.GetContainerImage()) + "@" + c.Digest
	}
	return r
}

// withoutTag returns the name of an image without its tag.
func withoutTag(image string) string {
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		return image[:i]
	}
	return image
}

// write replaces the lock file, unless nothing has changed.
func (l lockFile) write(path string) error {
	raw, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the lock file: %w", err)
	}
	raw = append(raw, '\n')
	records, err := json.Marshal(l.Containers)
	if err != nil {
		return fmt.Errorf("writing the lock file: %w", err)
	}
	if len(l.Containers) > limits.LockRecords || len(records) > limits.LockRecordBytes || len(raw) > maxLock {
		return fmt.Errorf("writing the lock file: it would have %d containers in %d bytes, and %d bytes with the locks; give another --lock for some of the inputs", len(l.Containers), len(records), len(raw))
	}
	if path, err = file.Resolve(path); err == nil {
		err = file.Replace(path, raw, 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing the lock file: %w", err)
	}
	return nil
}

// checkWritable checks that a lock file can be written, before anything is requested.
func checkWritable(path string) error {
	path, err := file.Resolve(path)
	if err == nil {
		err = file.CheckReplaceable(path)
	}
	if err != nil {
		return fmt.Errorf("the lock file cannot be written: %w", err)
	}
	return nil
}

// requestDigest identifies a request: its fields except for the identity of its caller.
func requestDigest(request *containerv1.ContainerRequest) string {
	r := proto.CloneOf(request)
	r.PlatformAccessToken, r.TowerAccessToken, r.PlatformRefreshToken, r.TowerRefreshToken = "", "", "", ""
	r.PlatformEndpoint, r.TowerEndpoint, r.PlatformWorkspaceId, r.TowerWorkspaceId = "", "", nil, nil
	r.Refresh, r.Timestamp = false, ""
	var b bytes.Buffer
	raw, err := protojson.Marshal(r)
	if err == nil {
		err = json.Compact(&b, raw) // the library's spaces vary
	}
	if err != nil {
		return "" // equal to no digest
	}
	return digestOf(b.Bytes())
}

// optionsDigest identifies what a request has besides its packages or its image, and the name of the
// result. It is "" for nothing.
func optionsDigest(request *containerv1.ContainerRequest) string {
	r := proto.CloneOf(request)
	r.ContainerImage, r.CondaFile, r.AsOf, r.MinAge, r.MinAgeExcept = "", "", "", "", nil
	r.BuildRepository, r.CacheRepository, r.NameStrategy, r.Freeze, r.Mirror, r.DryRun = "", "", "", false, false, false
	r.Fingerprint, r.WorkflowId, r.ScanMode, r.ScanLevels = "", "", "", nil
	if p := r.GetPackages(); p != nil {
		p.Type, p.Environment, p.Entries, p.Channels, p.EnvironmentName = "", "", nil, nil, ""
		if proto.Size(p.GetCondaOpts()) == 0 {
			p.CondaOpts = nil
		}
		if proto.Size(p) == 0 {
			r.Packages = nil
		}
	}
	if proto.Size(r.GetContainerConfig()) == 0 {
		r.ContainerConfig = nil
	}
	if d := requestDigest(r); d != requestDigest(&containerv1.ContainerRequest{}) {
		return d
	}
	return ""
}

func digestOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}
