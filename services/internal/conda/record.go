package conda

// Record is one artifact as a channel's repodata lists it (CEP 36). The JSON is
// that of a repodata record, with the four facts added that a channel's file
// gives by its place: channel, fn, url and subdir.
type Record struct {
	// Name is lower case.
	Name string `json:"name"`
	// Version is the text as the channel writes it; see ParseVersion.
	Version string `json:"version"`
	// Build is the build string, e.g. "h50ea8bc_0".
	Build string `json:"build"`
	// BuildNumber orders builds of one version.
	BuildNumber uint64 `json:"build_number"`
	// Depends and Constrains are match specifications, as written.
	Depends    []string `json:"depends"`
	Constrains []string `json:"constrains,omitempty"`
	// TrackFeatures makes a record less wanted than one that has none.
	TrackFeatures []string `json:"track_features,omitempty"`
	// NoArch is "", "generic" or "python".
	NoArch string `json:"noarch,omitempty"`
	// PythonSitePackagesPath is set on records of python that say where the
	// packages go (CEP 17), e.g. "lib/python3.13/site-packages".
	PythonSitePackagesPath string `json:"python_site_packages_path,omitempty"`
	// Timestamp is milliseconds since the epoch; 0 is unknown.
	Timestamp int64 `json:"timestamp,omitempty"`
	// Size is the artifact's length in bytes; 0 is unknown.
	Size int64 `json:"size,omitempty"`
	// SHA256 and MD5 are of the artifact, in hex; "" is unknown.
	SHA256 string `json:"sha256,omitempty"`
	MD5    string `json:"md5,omitempty"`
	// License and LicenseFamily are as the channel writes them.
	License       string `json:"license,omitempty"`
	LicenseFamily string `json:"license_family,omitempty"`
	// Channel is the channel's name or base URL, without a login.
	Channel string `json:"channel"`
	// Subdir is the platform's folder, e.g. "linux-64", "noarch".
	Subdir string `json:"subdir"`
	// FileName is the artifact's, e.g. "zlib-1.3.1-hb9d3cd8_2.conda".
	FileName string `json:"fn"`
	// URL is where the artifact is, without a login.
	URL string `json:"url"`
}
