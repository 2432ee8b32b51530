package installed

import (
	"bytes"
	"strings"

	"slipway.dev/services/internal/limits"
)

// dpkg returns the manager of Debian packages. Images without dpkg ("distroless") have a file for each
// package instead of a common one.
func dpkg() Manager {
	return Manager{
		Kind: Debian,
		isRecord: func(name string) bool {
			one, ok := strings.CutPrefix(name, "var/lib/dpkg/status.d/")
			return name == "var/lib/dpkg/status" || ok && !strings.Contains(one, "/") && !strings.HasSuffix(one, ".md5sums")
		},
		parse: parseDpkg,
	}
}

// parseDpkg yields the packages whose files are in the image, whatever is left of their installation.
func parseDpkg(raw []byte, yield func(Record) bool) {
	for s := range stanzas(raw, field{name: "package"}, field{name: "version"}, field{name: "architecture"}, field{name: "status"}, field{name: "source"}) {
		if status := strings.Fields(s["status"]); len(status) == 3 && (status[2] == "not-installed" || status[2] == "config-files") {
			continue
		}
		source, version, _ := strings.Cut(s["source"], " ") // its version follows in parentheses if it differs
		version = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(version), "("), ")")
		if !yield(Record{Name: s["package"], Version: s["version"], Arch: s["architecture"], Source: source, SourceVersion: version}) {
			return
		}
	}
}

// apk returns the manager of Alpine packages.
func apk() Manager {
	return Manager{
		Kind: Alpine,
		isRecord: func(name string) bool {
			return name == "lib/apk/db/installed" || name == "usr/lib/apk/db/installed"
		},
		parse: parseAPK,
	}
}

// parseAPK yields the installed packages. The names of fields are case sensitive: "p" is what a package
// provides.
func parseAPK(raw []byte, yield func(Record) bool) {
	for s := range stanzas(raw, field{name: "P"}, field{name: "V"}, field{name: "A"}, field{name: "L"}, field{name: "o"}) {
		if !yield(Record{Name: s["P"], Version: s["V"], Arch: s["A"], License: s["L"], Source: s["o"]}) {
			return
		}
	}
}

// rpm returns the manager of RPM packages, whose database is not read.
func rpm() Manager {
	return Manager{
		Kind: RPM,
		isRecord: func(name string) bool {
			switch name {
			case "var/lib/rpm/Packages", "var/lib/rpm/Packages.db", "var/lib/rpm/rpmdb.sqlite", "usr/lib/sysimage/rpm/Packages.db", "usr/lib/sysimage/rpm/rpmdb.sqlite":
				return true
			}
			return false
		},
	}
}

// system returns the manager of the file that names the distribution. /etc/os-release is usually a symbolic
// link to the other file.
func system() Manager {
	return Manager{
		Kind:     System,
		isRecord: func(name string) bool { return name == "etc/os-release" || name == "usr/lib/os-release" },
		parse:    parseSystem,
		optional: true,
	}
}

func parseSystem(raw []byte, yield func(Record) bool) {
	var r Record
	for line := range bytes.Lines(raw) {
		name, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte("="))
		if value = bytes.Trim(value, `"'`); len(value) > limits.ImageRecordField {
			continue
		}
		switch string(name) {
		case "ID":
			r.Name = strings.ToLower(string(value))
		case "VERSION_ID":
			r.Version = string(value)
		}
	}
	if r.Version == "" { // Debian's unstable version has none
		r.Version = "rolling"
	}
	yield(r)
}
