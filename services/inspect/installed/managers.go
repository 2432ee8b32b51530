package installed

// A Kind is a kind of packages, named as in package URLs.
type Kind string

// The kinds.
const (
	Conda  Kind = "conda"
	Debian Kind = "deb"
	Alpine Kind = "apk"
	Python Kind = "pypi"
	R      Kind = "cran"
	// RPM is the kind of a database of RPM, which is found but not read.
	RPM Kind = "rpm"
	// Installer is the program that installed the Python package in the folder of the record: Name is "conda".
	// Other installers are not recorded.
	Installer Kind = "installer"
	// System is the distribution: a record's Name is its id, e.g. "debian", and Version its version.
	System Kind = "os"
)

// A Manager finds and reads the records of one package manager.
type Manager struct {
	Kind Kind
	// isRecord reports whether the file at a clean path without leading slash has records.
	isRecord func(name string) bool
	// parse yields the records of a file. It yields an invalid record for each that cannot be read, and
	// ends if yield returns false.
	parse func(raw []byte, yield func(Record) bool)
	// optional states that other files tell the same, so that an unreadable one is ignored.
	optional bool
}

// CondaManager returns the manager of Conda packages.
func CondaManager() Manager { return conda() }

// Managers returns all managers.
func Managers() []Manager {
	return []Manager{conda(), dpkg(), apk(), python(), installer(), r(), rpm(), system()}
}
