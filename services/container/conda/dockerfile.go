package conda

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/conda/envfile"
)

//go:embed install.sh
var installer string

// folder is the folder of the Dockerfile's files in the context and in the installing
// stage.
const folder = ".slipway"

// Dockerfile returns the Dockerfile that builds the environment: one stage installs it, the
// other is the image. All user input is in files, except for two parsed image names, the
// environment's variables with escaped values, and the commands, which are Dockerfile lines
// according to the contract.
func (r Recipe) Dockerfile() string {
	var out strings.Builder
	fmt.Fprintf(&out, "FROM %s AS build\n", r.mambaImage)
	out.WriteString("USER 0\n")
	fmt.Fprintf(&out, "COPY %s/ /%s/\n", folder, folder)
	// The exec form is independent of the shell of the image.
	fmt.Fprintf(&out, "RUN [\"sh\", \"/%s/install.sh\"]\n\n", folder)
	fmt.Fprintf(&out, "FROM %s\n", r.baseImage)
	out.WriteString("COPY --from=build /opt/conda /opt/conda\n")
	out.WriteString("ENV PATH=/opt/conda/bin:$PATH\n")
	for _, name := range slices.Sorted(maps.Keys(r.Environment.Variables)) {
		fmt.Fprintf(&out, "ENV %s=\"%s\"\n", name, dockerfileText.Replace(r.Environment.Variables[name]))
	}
	out.WriteString(r.Lines())
	return out.String()
}

// dockerfileText escapes characters that a Dockerfile interprets within double quotes.
//
//nolint:gochecknoglobals // never changed
var dockerfileText = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`)

// Lines returns the request's commands as lines of a Dockerfile; "" for none.
func (r Recipe) Lines() string {
	var out strings.Builder
	for _, line := range r.commands {
		out.WriteString(line + "\n")
	}
	return out.String()
}

// StepFiles returns the files that describe build steps after the packages are installed,
// at the paths where the step reads them: the pip requirements, the R packages to build from
// source, and whether to compile modules. It returns nil without such steps.
func (r Recipe) StepFiles() []*buildv1.File {
	var files []*buildv1.File
	if len(r.pip()) > 0 {
		files = append(files, &buildv1.File{Path: folder + "/requirements.txt", Content: []byte(strings.Join(r.pip(), "\n") + "\n")})
	}
	if text := r.fallback.file(); text != "" {
		files = append(files, &buildv1.File{Path: folder + "/cran", Content: []byte(text)})
	}
	if r.compile {
		files = append(files, &buildv1.File{Path: folder + "/compile"})
	}
	return files
}

// Files returns the installer and the files that it reads.
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

// base returns the environment file of the base packages.
func (r Recipe) base() string {
	var all []envfile.Requirement
	for _, spec := range r.basePackages {
		all = append(all, envfile.Requirement{Text: spec})
	}
	return envfile.New(r.Environment.Channels, all).Text()
}
