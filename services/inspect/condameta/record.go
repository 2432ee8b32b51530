package condameta

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"slipway.dev/services/internal/limits"
)

// A Record holds those members of a file in conda-meta that responses contain. Name and Version are
// not empty; other members may be.
type Record struct {
	Name    string
	Version string
	Build   string
	// Channel is the channel's name or URL, as the installer wrote it, without a login.
	Channel string
	Subdir  string
	License string
	// URL is the address of the artifact, without a login.
	URL    string
	MD5    string
	SHA256 string
	// Size is the artifact's length in bytes; 0 if it is unknown.
	Size int64
}

// parse decodes a record. It reports false unless raw is a record with a name and a version whose
// members are within limits.ImageRecordField.
func parse(raw []byte) (Record, bool) {
	var in struct {
		Name    string `json:"name"`
		Version string `json:"version"`
		Build   string `json:"build"`
		Old     string `json:"build_string"` // older versions of conda
		Channel string `json:"channel"`
		Subdir  string `json:"subdir"`
		License string `json:"license"`
		URL     string `json:"url"`
		MD5     string `json:"md5"`
		SHA256  string `json:"sha256"`
		Size    int64  `json:"size"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return Record{}, false
	}
	r := Record{
		Name: in.Name, Version: in.Version, Build: cmp.Or(in.Build, in.Old), Channel: withoutLogin(in.Channel), Subdir: in.Subdir,
		License: in.License, URL: withoutLogin(in.URL), MD5: in.MD5, SHA256: in.SHA256, Size: max(in.Size, 0),
	}
	for _, s := range r.texts() {
		if len(s) > limits.ImageRecordField {
			return Record{}, false
		}
	}
	return r, r.Name != "" && r.Version != ""
}

func (r Record) texts() []string {
	return []string{r.Name, r.Version, r.Build, r.Channel, r.Subdir, r.License, r.URL, r.MD5, r.SHA256}
}

// size returns the approximate memory that r uses, in bytes.
func (r Record) size() int64 {
	n := 0
	for _, s := range r.texts() {
		n += len(s)
	}
	return int64(n)
}

func (r Record) compare(other Record) int {
	return cmp.Or(strings.Compare(r.Name, other.Name), strings.Compare(r.Version, other.Version), strings.Compare(r.Build, other.Build))
}

// withoutLogin returns the name or URL of a channel, or the URL of an artifact, without a user name, password,
// query and token in the path (/t/<token>/): a user with access to an image may have no right to use the
// login. It returns "" for a malformed URL.
func withoutLogin(s string) string {
	scheme, rest, isURL := strings.Cut(s, "://")
	if !isURL {
		return withoutToken(s)
	}
	rest, _, _ = strings.Cut(rest, "?")
	rest, _, _ = strings.Cut(rest, "#")
	host, name, _ := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		host = host[i+1:]
	}
	// Browsers and conda would find a login elsewhere in such a URL, e.g. after a backslash.
	if u, err := url.Parse(s); err != nil || u.Host != host || strings.Contains(host, "\\") {
		return ""
	}
	if name == "" {
		return scheme + "://" + host
	}
	return scheme + "://" + host + "/" + withoutToken(name)
}

// withoutToken returns a path without its tokens: the component "t", and the one that follows.
func withoutToken(name string) string {
	list := strings.Split(name, "/")
	for i := 0; i+1 < len(list); i++ {
		if list[i] == "t" {
			list = slices.Delete(list, i, i+2)
			i--
		}
	}
	return strings.Join(list, "/")
}
