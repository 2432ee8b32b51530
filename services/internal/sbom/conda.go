package sbom

import (
	"path"
	"strings"

	"github.com/package-url/packageurl-go"

	"slipway.dev/services/conda/spec"
)

// Conda returns the components of an environment: Conda packages and wheels. at is the path of
// the environment in the image. The caller sets Layer if it knows the layers. Logins in channels and URLs are
// left out.
func Conda(records []spec.Record, at string) []Component {
	out := make([]Component, 0, len(records))
	for _, r := range records {
		r.Channel, r.URL = spec.WithoutLogin(r.Channel), spec.WithoutLogin(r.URL)
		c := Component{
			Name: r.Name, Version: r.Version, PURL: condaURL(&r), License: r.License, URL: r.URL, SHA256: r.SHA256, MD5: r.MD5, Path: at,
			Requires: r.Needs(),
		}
		out = append(out, c)
	}
	return out
}

// condaURL returns the package URL of a Conda package or a wheel.
func condaURL(r *spec.Record) string {
	if r.IsWheel() {
		return PURL(packageurl.TypePyPi, "", r.Name, r.Version, map[string]string{"file_name": wheelFile(r)})
	}
	return PURL(packageurl.TypeConda, "", r.Name, r.Version, map[string]string{
		"build": r.Build, "channel": channelName(r.Channel, r.Subdir), "subdir": r.Subdir, "type": artifactType(r),
	})
}

func wheelFile(r *spec.Record) string {
	if name := path.Base(r.URL); strings.HasSuffix(name, ".whl") {
		return name
	}
	return ""
}

// artifactType returns the type of the artifact's file as in the definition of the package URL type.
func artifactType(r *spec.Record) string {
	for _, kind := range []string{"conda", "tar.bz2"} {
		if strings.HasSuffix(r.FileName, "."+kind) || strings.HasSuffix(r.URL, "."+kind) {
			return kind
		}
	}
	return ""
}

// channelName returns the short name of a channel that conda knows by one; the channel itself otherwise.
// Installed records often state the channel as the address of its subdir.
func channelName(channel, subdir string) string {
	channel = strings.TrimSuffix(channel, "/")
	if subdir != "" {
		channel = strings.TrimSuffix(channel, "/"+subdir)
	}
	for _, known := range []string{"https://conda.anaconda.org/", "https://repo.anaconda.com/pkgs/", "pkgs/"} {
		channel = strings.TrimPrefix(channel, known)
	}
	return channel
}
