package run

import (
	"path/filepath"
	"slices"
	"strings"
)

// personal are the variables of the user that an image does not replace.
//
//nolint:gochecknoglobals // an immutable value
var personal = []string{"HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "PWD", "OLDPWD", "HOSTNAME", "TMPDIR", "TZ", "DISPLAY"}

// activated are the variables of an activated Conda environment, which would describe another environment than the mounted one.
//
//nolint:gochecknoglobals // an immutable value
var activated = []string{"CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_SHLVL", "CONDA_PROMPT_MODIFIER", "CONDA_PYTHON_EXE", "CONDA_EXE", "_CE_CONDA", "_CE_M", "PYTHONHOME"}

// variables returns the environment of a command: the user's variables with those that the image sets. The folders of the environment
// are before those of the user's PATH.
func variables(prefix string, user, image []string) []string {
	var out []string
	set := func(name, value string) {
		out = slices.DeleteFunc(out, func(v string) bool { return strings.HasPrefix(v, name+"=") })
		out = append(out, name+"="+value)
	}
	path := ""
	has := map[string]bool{}
	for _, v := range user {
		name, value, ok := strings.Cut(v, "=")
		if !ok || slices.Contains(activated, name) || strings.HasPrefix(name, "CONDA_PREFIX_") {
			continue
		}
		if name == "PATH" {
			path = value
			continue
		}
		has[name] = true
		out = append(out, v)
	}
	set("CONDA_PREFIX", prefix)
	first := []string{filepath.Join(prefix, "bin")}
	for _, v := range image {
		name, value, ok := strings.Cut(v, "=")
		switch {
		case !ok || name == "":
		case name == "PATH":
			first = foldersOf(prefix, value)
		case has[name] && (slices.Contains(personal, name) || strings.HasPrefix(name, "LC_")):
		default:
			set(name, value)
		}
	}
	for _, dir := range filepath.SplitList(path) {
		if dir != "" && !slices.Contains(first, dir) {
			first = append(first, dir)
		}
	}
	set("PATH", strings.Join(first, ":"))
	return out
}

// foldersOf returns the folders of an image's PATH that are in the environment. Its others belong to the image's root, which is not
// mounted.
func foldersOf(prefix, path string) []string {
	var out []string
	for _, dir := range filepath.SplitList(path) {
		if dir == prefix || strings.HasPrefix(dir, prefix+"/") {
			out = append(out, dir)
		}
	}
	if len(out) == 0 {
		return []string{filepath.Join(prefix, "bin")}
	}
	return out
}
