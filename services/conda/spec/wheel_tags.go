package spec

import (
	"slices"
	"strconv"
	"strings"

	"slipway.dev/services/internal/fault"
)

// fits returns fault.Invalid unless one of the wheel's tags is supported by the Python of an
// environment for Linux. The rules are those of pip (PyPA specification of platform
// compatibility tags).
func (n WheelName) fits(python Python, platform, glibc string) error {
	machine, ok := map[string]string{"linux-64": "x86_64", "linux-aarch64": "aarch64"}[platform]
	if !ok {
		return fault.Invalid.Newf("wheels are not supported on %s", fault.Quote(platform))
	}
	m := wheelMachine{minor: minorOf(python.Minor), isFree: python.FreeThreaded, machine: machine, glibc: glibcOf(glibc)}
	if m.minor < 0 {
		return fault.Invalid.Newf("wheels are not supported for Python %s", python.Minor)
	}
	if !slices.ContainsFunc(n.platforms, m.runs) {
		return fault.Invalid.Newf("it is for %s and not for %s with glibc %s", fault.Quote(strings.Join(n.platforms, ", ")), platform, fault.Quote(glibc))
	}
	for _, p := range n.pythons {
		for _, abi := range n.abis {
			if m.loads(p, abi, slices.Contains(n.platforms, "any")) {
				return nil
			}
		}
	}
	return fault.Invalid.Newf("it is for %s (%s) and not for Python %s", fault.Quote(strings.Join(n.pythons, ", ")), fault.Quote(strings.Join(n.abis, ", ")), m.describe())
}

// A wheelMachine is the target that wheels must support: CPython 3.minor on a Linux machine.
type wheelMachine struct {
	minor   int
	isFree  bool
	machine string
	// glibc is the minor version of glibc 2; -1 for a machine without glibc.
	glibc int
}

func (m wheelMachine) describe() string {
	if m.isFree {
		return "3." + strconv.Itoa(m.minor) + " (free-threaded)"
	}
	return "3." + strconv.Itoa(m.minor)
}

// runs reports whether wheels with a platform tag run on the machine.
func (m wheelMachine) runs(tag string) bool {
	if tag == "any" {
		return true
	}
	kind, ok := strings.CutSuffix(tag, "_"+m.machine)
	if !ok {
		return false
	}
	oldest := map[string]int{"x86_64": 5, "aarch64": 17}[m.machine]
	need := map[string]int{"linux": 0, "manylinux1": 5, "manylinux2010": 12, "manylinux2014": 17}
	least, known := need[kind]
	if minor, ok := strings.CutPrefix(kind, "manylinux_2_"); ok {
		least, known = smallNumber(minor), true
	}
	if !known || least < 0 {
		return false
	}
	return kind == "linux" || least >= oldest && least <= m.glibc
}

// loads reports whether the interpreter can load modules of a Python tag and an ABI tag.
// isAny is set if the wheel is for any platform.
func (m wheelMachine) loads(python, abi string, isAny bool) bool {
	own := "cp3" + strconv.Itoa(m.minor)
	if python == own {
		ownABI := own
		switch {
		case m.isFree:
			ownABI += "t"
		case m.minor < 8:
			ownABI += "m"
		}
		if abi == "none" || abi == ownABI && !isAny {
			return true
		}
	}
	if minor, ok := strings.CutPrefix(python, "cp3"); ok {
		from := smallNumber(minor)
		return abi == "abi3" && !m.isFree && !isAny && from >= 2 && from <= m.minor
	}
	if abi != "none" {
		return false
	}
	minor, ok := strings.CutPrefix(python, "py3")
	from := smallNumber(minor)
	return ok && (minor == "" || from >= 0 && from <= m.minor)
}

// minorOf returns the minor version of Python 3; -1 for another one.
func minorOf(version string) int {
	minor, ok := strings.CutPrefix(version, "3.")
	if !ok {
		return -1
	}
	return smallNumber(minor)
}

// glibcOf returns the minor version of glibc 2; -1 for none.
func glibcOf(version string) int {
	rest, ok := strings.CutPrefix(version, "2.")
	minor, _, _ := strings.Cut(rest, ".")
	if !ok {
		return -1
	}
	return smallNumber(minor)
}

// smallNumber parses a small number without leading zeros; -1 for anything else.
func smallNumber(text string) int {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || strconv.FormatUint(n, 10) != text {
		return -1
	}
	return int(n)
}
