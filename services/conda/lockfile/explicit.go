package lockfile

import (
	"fmt"
	"strings"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
)

const explicitMark = "@EXPLICIT"

// isExplicit reports whether a file has the @EXPLICIT line.
func isExplicit(text string) bool {
	for line := range strings.SplitSeq(text, "\n") {
		if strings.TrimSpace(line) == explicitMark {
			return true
		}
	}
	return false
}

// readExplicit reads a list of addresses (CEP 23).
func readExplicit(text string) (Lock, error) {
	var p PlatformLock
	n := 0
	for line := range strings.SplitSeq(text, "\n") {
		n++
		line = strings.TrimSpace(line)
		if platform, ok := strings.CutPrefix(line, "# platform:"); ok && p.Platform == "" {
			p.Platform = strings.TrimSpace(platform)
		}
		if line == "" || line[0] == '#' || line == explicitMark {
			continue
		}
		r, err := explicitLine(line)
		if err != nil {
			return Lock{}, fault.In(fmt.Sprintf("line %d", n), err)
		}
		p.Packages = append(p.Packages, r)
	}
	if p.Platform != "" && !spec.IsPlatform(p.Platform) {
		return Lock{}, fault.Invalid.Newf("# platform: %q is no platform, such as linux-64", fault.Quote(p.Platform))
	}
	if err := p.agree(); err != nil {
		return Lock{}, err
	}
	return Lock{Platforms: []PlatformLock{p}}, nil
}

// explicitLine parses an address with an optional hash.
func explicitLine(line string) (spec.Record, error) {
	address, hash, _ := strings.Cut(line, "#")
	r, err := spec.ParseArtifact(address)
	if err != nil {
		return r, err
	}
	if sha, ok := strings.CutPrefix(hash, "sha256:"); ok || len(hash) == 64 {
		return r, r.SetHash("sha256", sha)
	}
	return r, r.SetHash("md5", hash)
}

// agree checks that the packages are for one platform and that no name occurs twice. It sets
// the platform of a list that does not state it.
func (p *PlatformLock) agree() error {
	names := map[string]string{}
	for _, r := range p.Packages {
		if other, ok := names[r.Name]; ok && other != r.URL {
			return fault.Invalid.Newf("the lock has two packages called %s: %s and %s", r.Name, fault.Quote(other), fault.Quote(r.URL))
		}
		names[r.Name] = r.URL
		if r.Subdir == "" || r.Subdir == "noarch" || r.Subdir == p.Platform {
			continue
		}
		if p.Platform != "" {
			return fault.Invalid.Newf("%s is for %s, but the lock is for %s", r.FileName, r.Subdir, p.Platform)
		}
		p.Platform = r.Subdir
	}
	return nil
}

// Explicit returns a list of addresses with their MD5, which every conda reads (CEP 23),
// dependencies first. With sha256 the list has SHA-256 instead, which conda reads since
// 23.11. If one hash is unknown, the other is used. It returns fault.Invalid if a record
// cannot be written, e.g. because of its address.
func (p PlatformLock) Explicit(sha256 bool) (string, error) {
	var out strings.Builder
	if p.Platform != "" {
		fmt.Fprintf(&out, "# platform: %s\n", p.Platform)
	}
	out.WriteString(explicitMark + "\n")
	for _, r := range p.Sorted() {
		out.WriteString(r.URL)
		switch {
		case r.SHA256 != "" && (sha256 || r.MD5 == ""):
			out.WriteString("#sha256:" + r.SHA256)
		case r.MD5 != "":
			out.WriteString("#" + r.MD5)
		}
		out.WriteByte('\n')
	}
	return written(out.String(), Lock{Platforms: []PlatformLock{p}})
}
