// Package definition parses Singularity definition files and translates them to
// Dockerfiles, which are built like any other. It does no I/O. Anything that cannot be
// translated is rejected by its name.
package definition

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// A Definition is a definition file that can be built. Use Read to create it.
type Definition struct {
	// From is the name of the base image.
	From string
	// IsLocal reports whether From has to be a name that this service issued.
	IsLocal bool
	// MayBeSif reports whether From may be a Singularity image.
	MayBeSif bool
	copies   []copied
	labels   []label
	// shell runs the script of %post.
	shell                                                 string
	post, environment, runscript, startscript, test, help string
}

// A copied is a line of %files.
type copied struct{ from, to string }

// A label is a line of %labels.
type label struct{ name, value string }

// header matches a line of the header.
var header = regexp.MustCompile(`^([A-Za-z]+)\s*:\s*(.*?)\s*$`)

// Is reports whether a text is a definition file: its first line that is not a comment is
// the header Bootstrap.
func Is(text string) bool {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		m := header.FindStringSubmatch(line)
		return m != nil && strings.EqualFold(m[1], "bootstrap")
	}
	return false
}

// Read parses a definition file. It returns fault.Invalid with the line for a malformed
// file and for a part that cannot be built here.
func Read(text string) (Definition, error) {
	r := reader{d: Definition{shell: "/bin/sh"}, headers: map[string]string{}, seen: map[string]bool{}}
	if strings.ContainsAny(text, "\x00\r") {
		text = strings.ReplaceAll(text, "\r\n", "\n")
	}
	for line := range strings.Lines(text) {
		r.line++
		if err := r.read(strings.TrimSuffix(line, "\n")); err != nil {
			return Definition{}, err
		}
	}
	if err := r.end(); err != nil {
		return Definition{}, err
	}
	return r.d, r.base()
}

// A reader parses a definition file line by line.
type reader struct {
	d       Definition
	line    int
	headers map[string]string
	// section is the name of the current section; "" in the header.
	section string
	seen    map[string]bool
	body    strings.Builder
}

func (r *reader) refuse(format string, args ...any) error {
	return fault.Invalid.Newf("containerFile: line %d: "+format, append([]any{r.line}, args...)...)
}

// sectionLine matches the line that begins a section.
var sectionLine = regexp.MustCompile(`^%([A-Za-z]+)(\s.*)?$`)

func (r *reader) read(line string) error {
	if strings.ContainsRune(line, 0) {
		return r.refuse("there is a NUL character")
	}
	// A line such as "%d items" in a script does not start a section.
	if m := sectionLine.FindStringSubmatch(line); m != nil && (slices.Contains(sections(), m[1]) || refused(m[1]) != "") {
		return r.begin(m[1], strings.TrimSpace(m[2]))
	}
	if m := sectionLine.FindStringSubmatch(line); m != nil && m[2] == "" {
		return r.refuse("%%%s is not a section: there are %%%s", fault.Quote(m[1]), strings.Join(sections(), ", %"))
	}
	if r.section == "" {
		return r.header(strings.TrimSpace(line))
	}
	r.body.WriteString(line)
	r.body.WriteByte('\n')
	return nil
}

// sections returns the sections that can be built.
func sections() []string {
	return []string{"post", "environment", "files", "labels", "runscript", "startscript", "test", "help"}
}

// refused returns why a section cannot be built; "" for one that can, and for unknown
// names.
func refused(name string) string {
	switch {
	case name == "setup" || name == "pre":
		return "would run outside the container on the build machine, which is not allowed; use %post"
	case name == "arguments":
		return "is not supported; write the values where they are used"
	case strings.HasPrefix(name, "app") && slices.Contains([]string{"appinstall", "appenv", "apphelp", "apprun", "applabels", "appfiles", "apptest", "appstart"}, name):
		return "is not supported: an image has one program here; use %runscript"
	}
	return ""
}

// begin starts a section.
func (r *reader) begin(name, args string) error {
	if err := r.end(); err != nil {
		return err
	}
	switch why := refused(name); {
	case why != "":
		return r.refuse("%%%s %s", name, why)
	case r.seen[name]:
		return r.refuse("there are two sections %%%s", name)
	}
	r.section, r.seen[name] = name, true
	r.body.Reset()
	switch {
	case args == "" || strings.HasPrefix(args, "#"):
	case name == "post":
		option, shell, _ := strings.Cut(args, " ")
		if shell = strings.TrimSpace(shell); option != "-c" || !path.IsAbs(shell) || !plainPath.MatchString(shell) {
			return r.refuse("%%post takes -c and the path of a shell, e.g. %%post -c /bin/bash")
		}
		r.d.shell = shell
	case name == "files" && strings.HasPrefix(args, "from "):
		return r.refuse("%%files from a stage is not supported; use a Dockerfile for a build of several stages")
	default:
		return r.refuse("%%%s takes no arguments", name)
	}
	return nil
}

// plainPath matches paths that need no quoting anywhere.
var plainPath = regexp.MustCompile(`^[A-Za-z0-9_./+-]+$`)

// end stores the content of the current section.
func (r *reader) end() error {
	body := r.body.String()
	switch r.section {
	case "post":
		r.d.post = body
	case "environment":
		r.d.environment = body
	case "runscript":
		r.d.runscript = body
	case "startscript":
		r.d.startscript = body
	case "test":
		r.d.test = body
	case "help":
		r.d.help = body
	case "files":
		return r.files(body)
	case "labels":
		return r.labels(body)
	}
	return nil
}

// header parses a line of the header.
func (r *reader) header(line string) error {
	if line == "" || strings.HasPrefix(line, "#") {
		return nil
	}
	m := header.FindStringSubmatch(line)
	if m == nil {
		return r.refuse("%q is neither a header, such as From: ubuntu:24.04, nor the first line of a section", fault.Quote(line))
	}
	name, value := strings.ToLower(m[1]), m[2]
	switch {
	case name == "bootstrap" && r.headers["bootstrap"] != "", name == "stage":
		return r.refuse("a definition of several stages is not supported; use a Dockerfile")
	case !slices.Contains([]string{"bootstrap", "from", "registry", "namespace"}, name):
		return r.refuse("the header %s is not supported; the headers are Bootstrap, From, Registry and Namespace", fault.Quote(m[1]))
	case r.headers[name] != "":
		return r.refuse("there are two headers %s", m[1])
	}
	r.headers[name] = value
	return nil
}

// base determines the base image from the header.
func (r *reader) base() error {
	from, bootstrap := r.headers["from"], strings.ToLower(r.headers["bootstrap"])
	if bootstrap != "docker" && (r.headers["namespace"] != "" || r.headers["registry"] != "") {
		return fault.Invalid.Newf("containerFile: Registry and Namespace go with Bootstrap: docker; with others, give the whole name in From")
	}
	switch bootstrap {
	case "docker":
		from = strings.TrimPrefix(from, "docker://")
		for _, before := range []string{r.headers["namespace"], r.headers["registry"]} {
			if before != "" {
				from = strings.Trim(before, "/") + "/" + from
			}
		}
	case "localimage":
		from = strings.TrimPrefix(strings.TrimPrefix(from, "oras://"), "docker://")
		if strings.HasPrefix(from, "/") || strings.HasPrefix(from, ".") || !strings.Contains(from, "/") {
			return fault.Invalid.Newf("containerFile: Bootstrap: localimage takes the name of an image that this service issued, not a file of your machine: %q", fault.Quote(from))
		}
		r.d.IsLocal, r.d.MayBeSif = true, true
	case "oras":
		from = strings.TrimPrefix(from, "oras://")
		r.d.MayBeSif = true
	default:
		return fault.Invalid.Newf("containerFile: Bootstrap: %s is not supported; use docker, oras, or localimage with a name that this service issued", fault.Quote(bootstrap))
	}
	if from == "" || strings.ContainsAny(from, "$\\\"'") || strings.ContainsFunc(from, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return fault.Invalid.Newf("containerFile: From must be the name of an image, e.g. ubuntu:24.04, not %q", fault.Quote(from))
	}
	r.d.From = from
	return nil
}

// files parses the lines of %files.
func (r *reader) files(body string) error {
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words, ok := split(line)
		if !ok || len(words) > 2 {
			return r.refuse("in %%files, %q must be a path of the build context and a path in the image", fault.Quote(line))
		}
		c := copied{words[0], words[len(words)-1]}
		if strings.ContainsAny(line, "$\\`") {
			return r.refuse("in %%files, paths may have no $, \\ and `: %q", fault.Quote(line))
		}
		if !path.IsAbs(c.to) {
			c.to = "/" + c.to
		}
		if r.d.copies = append(r.d.copies, c); len(r.d.copies) > limits.DefinitionFiles {
			return r.refuse("%%files has more than %d lines", limits.DefinitionFiles)
		}
	}
	return nil
}

// split splits a line at blanks; a word may be in quotes.
func split(line string) (words []string, ok bool) {
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimLeft(line, " \t") {
		if quote := line[0]; quote == '"' || quote == '\'' {
			end := strings.IndexByte(line[1:], quote)
			if end < 1 {
				return nil, false
			}
			words, line = append(words, line[1:1+end]), line[end+2:]
			continue
		}
		end := strings.IndexAny(line, " \t")
		if end < 0 {
			end = len(line)
		}
		words, line = append(words, line[:end]), line[end:]
	}
	return words, len(words) > 0
}

// labelName matches the names of labels.
var labelName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]*$`)

// labels parses the lines of %labels.
func (r *reader) labels(body string) error {
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, _ := strings.Cut(strings.Replace(line, "\t", " ", 1), " ")
		if !labelName.MatchString(name) || len(name) > limits.Word {
			return r.refuse("in %%labels, %q must be a name of letters, digits, ., _, / and -, and a value", fault.Quote(line))
		}
		value = strings.TrimSpace(value)
		if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		if r.d.labels = append(r.d.labels, label{name, value}); len(r.d.labels) > limits.DefinitionLabels {
			return r.refuse("%%labels has more than %d lines", limits.DefinitionLabels)
		}
	}
	return nil
}
