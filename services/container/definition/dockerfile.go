package definition

import (
	"encoding/json"
	"strings"

	"slipway.dev/services/internal/oci"
)

// folder is the folder of the scripts in the build context.
const folder = ".slipway-definition"

// variables holds the variables with the file that the script of %post may append to.
const variables = "APPTAINER_ENVIRONMENT=/.singularity.d/env/91-environment.sh SINGULARITY_ENVIRONMENT=/.singularity.d/env/91-environment.sh"

// source sets the environment of the image.
const source = "for script in /.singularity.d/env/*.sh; do if [ -f \"$script\" ]; then . \"$script\"; fi; done"

// entrypoint runs the command given to the container engine, or the script of %runscript,
// in the environment of the definition.
const entrypoint = "#!/bin/sh\n" + source + "\n[ $# -gt 0 ] && exec \"$@\"\nexec /.singularity.d/runscript\n"

// A File is a file of the build context.
type File struct{ Path, Content string }

// NeedsContext reports whether the definition copies files of the caller's build context.
func (d Definition) NeedsContext() bool { return len(d.copies) > 0 }

// Files returns the files that the Dockerfile copies, in addition to those of the caller.
func (d Definition) Files() []File {
	var out []File
	for _, f := range []struct{ path, content string }{
		{"d/env/90-environment.sh", shebang(d.environment)},
		{"d/env/91-environment.sh", "#!/bin/sh\n"}, // which %post may append to
		{"d/runscript", shebang(d.runscript)},
		{"d/startscript", shebang(d.startscript)},
		{"d/test", shebang(d.test)},
		{"d/runscript.help", d.help},
		{"post", d.post},
	} {
		if f.content != "" {
			out = append(out, File{folder + "/" + f.path, f.content})
		}
	}
	if d.runscript != "" {
		out = append(out, File{folder + "/d/entrypoint", entrypoint})
	}
	return out
}

// shebang returns a script as a file; "" for none.
func shebang(script string) string {
	if strings.TrimSpace(script) == "" || strings.HasPrefix(strings.TrimLeft(script, " \t\n"), "#!") {
		return strings.TrimLeft(script, " \t\n")
	}
	return "#!/bin/sh\n" + script
}

// Dockerfile returns the Dockerfile that builds the definition.
func (d Definition) Dockerfile() string {
	out := &strings.Builder{}
	// Sections run as root and with /bin/sh, whatever the base image sets. The user is a
	// number, because the base image may have no user names.
	out.WriteString("FROM " + d.From + "\nUSER 0\nSHELL [\"/bin/sh\",\"-c\"]\n")
	for _, c := range d.copies {
		out.WriteString("COPY " + list(c.from, c.to) + "\n")
	}
	out.WriteString("COPY --chmod=755 " + folder + "/d/ /.singularity.d/\n")
	if d.post != "" {
		out.WriteString("RUN --mount=type=bind,source=" + folder + "/post,target=/.singularity.d/post " + variables + " " + d.shell + " -ex /.singularity.d/post\n")
	}
	out.WriteString("LABEL " + oci.DefinitionLabel + "=1\n")
	for _, l := range d.labels {
		out.WriteString("LABEL " + quote(l.name) + "=" + quote(l.value) + "\n")
	}
	if d.runscript != "" {
		out.WriteString("ENTRYPOINT " + list("/.singularity.d/entrypoint") + "\n")
	}
	if d.test != "" {
		out.WriteString("RUN " + source + "; exec /.singularity.d/test\n")
	}
	return out.String()
}

// list returns the JSON form of an instruction's arguments.
func list(words ...string) string {
	raw, err := json.Marshal(words)
	if err != nil {
		panic(err) // strings always encode
	}
	return string(raw)
}

// quote quotes a word so that nothing in it is expanded.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`).Replace(s) + `"`
}
