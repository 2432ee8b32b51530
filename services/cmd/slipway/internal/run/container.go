package run

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"slipway.dev/services/mount/sandbox"
)

// A container describes what a command in the root of an image sees of the system, as Apptainer does.
type container struct {
	// binds are of the form SOURCE[:TARGET[:OPTIONS]].
	binds []string
	// home is the home folder, of the form SOURCE[:TARGET]; "" for that of the user.
	home string
	// noHome leaves the home folder out, and contain also the working directory and the folders for temporary files, which are empty then.
	noHome, contain bool
	// dir is the working directory in the root; "" for the current one.
	dir string
}

// An account is the user that runs a command.
type account struct{ name, home string }

func ownAccount() account {
	a := account{name: "user" + strconv.Itoa(os.Getuid()), home: os.Getenv("HOME")}
	if u, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil {
		a.name = u.Username
		if a.home == "" {
			a.home = u.HomeDir
		}
	}
	return a
}

// A layout is the root of a command, its working directory and its home.
type layout struct {
	root      *sandbox.Root
	dir, home string
}

// layout returns what the command sees.
func (c container) layout(folder string, a account) (layout, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return layout{}, fmt.Errorf("the working directory: %w", err)
	}
	r := &sandbox.Root{Folder: folder}
	for _, file := range []string{"/etc/resolv.conf", "/etc/hosts", "/etc/localtime"} {
		r.Binds = append(r.Binds, sandbox.Bind{From: file, To: file, ReadOnly: true, Optional: true})
	}
	for _, dir := range []string{"/tmp", "/var/tmp"} {
		if c.contain {
			r.Empty = append(r.Empty, dir)
			continue
		}
		r.Binds = append(r.Binds, sandbox.Bind{From: dir, To: dir, Optional: true})
	}
	l := layout{root: r, home: a.home, dir: c.dir}
	if err := c.addHome(&l); err != nil {
		return l, err
	}
	for _, text := range c.binds {
		all, err := parseBinds(text)
		if err != nil {
			return l, err
		}
		r.Binds = append(r.Binds, all...)
	}
	if !c.contain && !isOfImage(cwd) && !isVisible(r.Binds, cwd) {
		r.Binds = append(r.Binds, sandbox.Bind{From: cwd, To: cwd})
	}
	if l.dir == "" {
		l.dir = "/"
		if isVisible(r.Binds, cwd) {
			l.dir = cwd
		}
	}
	r.Files, err = accounts(folder, a, l.home)
	return l, err
}

// addHome adds the home folder.
func (c container) addHome(l *layout) error {
	switch {
	case c.home != "":
		all, err := parseBinds(c.home)
		if err != nil || len(all) != 1 || all[0].ReadOnly {
			return errors.Join(fmt.Errorf("the home folder %q must have the form SOURCE or SOURCE:TARGET", c.home), err)
		}
		l.home = all[0].To
		l.root.Binds = append(l.root.Binds, all[0])
	case c.noHome || l.home == "" || isOfImage(l.home):
	case c.contain:
		l.root.Empty = append(l.root.Empty, l.home)
	default:
		l.root.Binds = append(l.root.Binds, sandbox.Bind{From: l.home, To: l.home, Optional: true})
	}
	return nil
}

// isOfImage reports whether a folder is one of those in which an image has its programs and settings, or that every command has: that of the system
// would replace it.
func isOfImage(dir string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(dir, "/"), "/")
	return first == "" || strings.HasPrefix(first, "lib") || slices.Contains([]string{"bin", "boot", "dev", "etc", "opt", "proc", "sbin", "sys", "usr"}, first)
}

// isVisible reports whether a folder of the system is visible at its own path.
func isVisible(binds []sandbox.Bind, dir string) bool {
	visible := false
	for _, b := range binds {
		if rest, err := filepath.Rel(b.To, dir); err == nil && rest != ".." && !strings.HasPrefix(rest, "../") {
			visible = filepath.Join(b.From, rest) == dir
		}
	}
	return visible
}

// parseBinds parses binds of the form SOURCE[:TARGET[:OPTIONS]], separated by commas. A backslash before a comma or colon makes it a part of a path.
func parseBinds(text string) ([]sandbox.Bind, error) {
	var out []sandbox.Bind
	for _, one := range splitOptions(text) {
		parts := splitUnescaped(one, ':')
		b := sandbox.Bind{From: parts[0], To: parts[0]}
		if len(parts) > 1 && parts[1] != "" {
			b.To = parts[1]
		}
		bad := len(parts) > 3 || b.From == "" || !filepath.IsAbs(b.To) && len(parts) > 1
		if len(parts) == 3 {
			bad = bad || parts[2] != "ro" && parts[2] != "rw"
			b.ReadOnly = parts[2] == "ro"
		}
		from, err := filepath.Abs(b.From)
		if bad || err != nil || strings.ContainsRune(one, 0) {
			return nil, fmt.Errorf("the bind %q must have the form SOURCE, SOURCE:TARGET or SOURCE:TARGET:OPTION, with an absolute target and the option ro or rw", one)
		}
		if b.To == b.From {
			b.To = from
		}
		b.From, b.To = from, filepath.Clean(b.To)
		out = append(out, b)
	}
	return out, nil
}

// splitOptions splits a list of binds at commas.
func splitOptions(text string) []string {
	var out []string
	for _, one := range splitEscaped(text, ',') {
		if one != "" {
			out = append(out, one)
		}
	}
	return out
}

// splitEscaped splits a text at a separator that has no backslash before it, and leaves other backslashes.
func splitEscaped(text string, sep byte) []string {
	var out []string
	start := 0
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text):
			i++
		case text[i] == sep:
			out = append(out, text[start:i])
			start = i + 1
		}
	}
	return append(out, text[start:])
}

// splitUnescaped splits a text, and removes the backslashes before commas, colons and backslashes.
func splitUnescaped(text string, sep byte) []string {
	out := splitEscaped(text, sep)
	for i := range out {
		out[i] = strings.NewReplacer(`\\`, `\`, `\,`, `,`, `\:`, `:`).Replace(out[i])
	}
	return out
}

// maxAccounts is the maximum size in bytes of a file with users or groups.
const maxAccounts = 1 << 20

// accounts returns the image's files of users and groups with the user.
func accounts(folder string, a account, home string) (map[string][]byte, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("opening the image: %w", err)
	}
	defer func() { _ = root.Close() }()
	uid, gid := strconv.Itoa(os.Getuid()), strconv.Itoa(os.Getgid())
	out := map[string][]byte{}
	for _, one := range []struct{ path, id, line string }{
		{"etc/passwd", uid, strings.Join([]string{a.name, "x", uid, gid, a.name, home, "/bin/sh"}, ":")},
		{"etc/group", gid, strings.Join([]string{a.name, "x", gid, ""}, ":")},
	} {
		f, err := root.Open(one.path)
		if err != nil {
			continue // the image has no users
		}
		raw, err := io.ReadAll(io.LimitReader(f, maxAccounts))
		if err = errors.Join(err, f.Close()); err != nil || len(raw) == maxAccounts || hasAccount(raw, one.id) {
			continue // left as it is
		}
		if n := len(raw); n > 0 && raw[n-1] != '\n' {
			raw = append(raw, '\n')
		}
		out["/"+one.path] = append(raw, one.line+"\n"...)
	}
	return out, nil
}

// hasAccount reports whether a file of users or groups has a number.
func hasAccount(raw []byte, id string) bool {
	for line := range strings.Lines(string(raw)) {
		if parts := strings.Split(strings.TrimSpace(line), ":"); len(parts) > 2 && parts[2] == id {
			return true
		}
	}
	return false
}

// usualPath is the PATH of images that set none.
const usualPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// An environ is a list of variables in their order.
type environ []string

func (e *environ) set(name, value string) {
	*e = slices.DeleteFunc(*e, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	*e = append(*e, name+"="+value)
}

// get returns the value of a variable; "" if it is not set.
func (e *environ) get(name string) string {
	for _, v := range slices.Backward(*e) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// forContainer are the prefixes of variables that are set in containers without the prefix. The last one takes precedence.
func forContainer() []string { return []string{"SINGULARITYENV_", "APPTAINERENV_"} }

// passedAlways are the variables that a clean environment has as well.
func passedAlways() []string {
	return []string{"TERM", "http_proxy", "https_proxy", "no_proxy", "all_proxy", "ftp_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "FTP_PROXY"}
}

// containerVariables returns the variables of a command in the root of an image, as Apptainer sets them: those of the user, unless clean is set,
// before those of the image, but for PATH; then those for containers, and extra.
func containerVariables(user, image []string, clean bool, home string, extra []string) []string {
	var out environ
	for _, v := range user {
		name, value, ok := strings.Cut(v, "=")
		if !ok || slices.Contains([]string{"HOME", "PATH", "LD_LIBRARY_PATH"}, name) || isForEngine(name) || clean && !slices.Contains(passedAlways(), name) {
			continue
		}
		out.set(name, value)
	}
	out.set("PATH", usualPath)
	for _, v := range image {
		name, value, ok := strings.Cut(v, "=")
		if ok && name != "" && (name == "PATH" || out.get(name) == "") && name != "HOME" {
			out.set(name, value)
		}
	}
	out.set("HOME", home)
	for _, v := range forced(user, extra) {
		out.assign(v)
	}
	return out
}

// forced returns the variables that take precedence over those of an image: those of the user for containers, and extra.
func forced(user, extra []string) []string {
	var out []string
	for _, prefix := range forContainer() {
		for _, v := range user {
			if v, ok := strings.CutPrefix(v, prefix); ok {
				out = append(out, v)
			}
		}
	}
	return append(out, extra...)
}

func isForEngine(name string) bool {
	for _, prefix := range []string{"SINGULARITY", "APPTAINER"} {
		if strings.HasPrefix(name, prefix+"_") || strings.HasPrefix(name, prefix+"ENV_") {
			return true
		}
	}
	return false
}

// assign sets a variable of the form NAME=VALUE. PREPEND_PATH and APPEND_PATH change PATH.
func (e *environ) assign(v string) {
	name, value, ok := strings.Cut(v, "=")
	switch {
	case !ok || name == "":
	case name == "PREPEND_PATH":
		e.set("PATH", value+":"+e.get("PATH"))
	case name == "APPEND_PATH":
		e.set("PATH", e.get("PATH")+":"+value)
	default:
		e.set(name, value)
	}
}
