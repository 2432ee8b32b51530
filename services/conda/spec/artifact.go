package spec

import (
	"net/url"
	"path"
	"strconv"
	"strings"

	"slipway.dev/services/internal/fault"
)

// IsPlatform reports whether s is a platform's folder other than noarch.
func IsPlatform(s string) bool { return s != "noarch" && isSubdir(s) }

// ParseArtifact parses the address of an artifact: name, version and build from its file name,
// and channel and subdir from the path. It derives the other fields that lock files omit.
// It returns fault.Invalid unless the address is an http(s) or oci URL without a login.
func ParseArtifact(address string) (Record, error) {
	bad := func(why string) (Record, error) {
		return Record{}, fault.Invalid.Newf("%q is not the address of a Conda package: %s", fault.Quote(address), why)
	}
	if !strings.Contains(address, "://") || strings.HasPrefix(address, "file:") {
		return bad("packages from files and from source are not supported, only those of channels on the web")
	}
	if !IsChannelURL(address) || strings.ContainsAny(address, "?#") {
		return bad("it must be an http(s) or oci URL without a login")
	}
	u, err := url.Parse(address)
	if err != nil || strings.HasPrefix(u.Path, "/t/") {
		return bad("take the token out of it; a login belongs in a credential")
	}
	folder, file := path.Split(u.Path)
	r := Record{FileName: file, URL: address}
	stem, ok := cutFormat(file)
	if !ok {
		return bad("it must end in .conda or .tar.bz2")
	}
	if r.Name, r.Version, r.Build, ok = cutStem(stem); !ok {
		return bad("its file must be called name-version-build")
	}
	r.BuildNumber = BuildNumberOf(r.Build)
	if subdir := path.Base(folder); isSubdir(subdir) {
		r.Subdir = subdir
		r.Channel = strings.TrimSuffix(address, "/"+subdir+"/"+address[strings.LastIndexByte(address, '/')+1:])
	}
	r.NoArch = NoArchOf(r)
	return r, nil
}

// cutFormat removes the extension of an artifact's file name.
func cutFormat(file string) (stem string, ok bool) {
	for _, ending := range []string{".conda", ".tar.bz2"} {
		if stem, ok := strings.CutSuffix(file, ending); ok {
			return stem, true
		}
	}
	return "", false
}

// cutStem splits name-version-build. Only the name may contain dashes.
func cutStem(stem string) (name, version, build string, ok bool) {
	rest, build, ok := cutLast(stem, "-")
	if !ok {
		return "", "", "", false
	}
	name, version, ok = cutLast(rest, "-")
	return name, version, build, ok && isArtifactWord(name) && isArtifactWord(version) && isArtifactWord(build)
}

// isArtifactWord reports whether s only has characters that names, versions and builds may
// have (CEP 26).
func isArtifactWord(s string) bool {
	return s != "" && leading(s, func(c byte) bool { return isNameLetter(c) || c == '!' || c == '+' }) == len(s)
}

// BuildNumberOf returns the number at the end of a build string; 0 without a number.
func BuildNumberOf(build string) uint64 {
	_, last, _ := cutLast(build, "_")
	n, err := strconv.ParseUint(last, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// NoArchOf guesses the kind of a noarch package from its build string, which begins with py for a
// Python package. It returns "" for a package of a platform.
func NoArchOf(r Record) string {
	switch {
	case r.Subdir != "noarch":
		return ""
	case strings.HasPrefix(r.Build, "py"):
		return "python"
	}
	return "generic"
}

// SetHash sets the hash of an artifact: kind is "md5" or "sha256", hex its value.
func (r *Record) SetHash(kind, hex string) error {
	want, to := 32, &r.MD5
	if kind == "sha256" {
		want, to = 64, &r.SHA256
	}
	if hex = strings.ToLower(hex); hex == "" {
		return nil
	}
	if len(hex) != want || !IsHex(hex) {
		return fault.Invalid.Newf("%s: %q is not a hash of %s", r.FileName, fault.Quote(hex), kind)
	}
	*to = hex
	return nil
}
