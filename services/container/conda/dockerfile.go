package conda

import (
	_ "embed"
	"fmt"
	"strings"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	nouns "slipway.dev/services/internal/conda"
)

//go:embed install.sh
var installer string

// folder is where the Dockerfile finds its files, in the context and in the image
// that installs.
const folder = ".slipway"

// Dockerfile is what builds the environment: one stage installs it, the other is
// the image. All that a user gave is in files, beside two image names that were
// parsed, and the commands, which are lines of a Dockerfile by contract.
func (r Recipe) Dockerfile() string {
	var out strings.Builder
	fmt.Fprintf(&out, "FROM %s AS build\n", r.mambaImage)
	out.WriteString("USER 0\n")
	fmt.Fprintf(&out, "COPY %s/ /%s/\n", folder, folder)
	// The list form passes by the shell that an image may have set for itself.
	fmt.Fprintf(&out, "RUN [\"sh\", \"/%s/install.sh\"]\n\n", folder)
	fmt.Fprintf(&out, "FROM %s\n", r.baseImage)
	out.WriteString("COPY --from=build /opt/conda /opt/conda\n")
	out.WriteString("ENV PATH=/opt/conda/bin:$PATH\n")
	out.WriteString(r.Lines())
	return out.String()
}

// Lines are those of a Dockerfile that the request itself wants run; "" for none.
func (r Recipe) Lines() string {
	var out strings.Builder
	for _, line := range r.commands {
		out.WriteString(line + "\n")
	}
	return out.String()
}

// StepFiles say what is run on packages that are there already, where the step that does
// it looks for them: what pip installs, and whether modules are compiled; nil for nothing.
func (r Recipe) StepFiles() []*buildv1.File {
	var files []*buildv1.File
	if len(r.pip()) > 0 {
		files = append(files, &buildv1.File{Path: folder + "/requirements.txt", Content: []byte(strings.Join(r.pip(), "\n") + "\n")})
	}
	if r.compile {
		files = append(files, &buildv1.File{Path: folder + "/compile"})
	}
	return files
}

// Files are those that the installer reads, and the installer.
func (r Recipe) Files() []*buildv1.File {
	texts := []struct{ name, text string }{
		{"install.sh", installer}, {"conda.yml", r.Environment.Text()}, {"lock-url", r.LockURL},
	}
	if len(r.basePackages) > 0 {
		texts = append(texts, struct{ name, text string }{"base.yml", r.base()})
	}
	var files []*buildv1.File
	for _, f := range texts {
		if f.text != "" {
			files = append(files, &buildv1.File{Path: folder + "/" + f.name, Content: []byte(f.text)})
		}
	}
	return files
}

// base is the environment file of the base packages.
func (r Recipe) base() string {
	var all []nouns.Requirement
	for _, spec := range r.basePackages {
		all = append(all, nouns.Requirement{Text: spec})
	}
	return nouns.NewEnvironment(r.Environment.Channels, all).Text()
}
