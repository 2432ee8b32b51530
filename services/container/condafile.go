package container

import (
	_ "embed"
	"fmt"
	"strings"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
)

//go:embed conda/install.sh
var condaInstaller string

// condaFolder is where a generated Dockerfile finds its files, in the context and
// in the image that installs.
const condaFolder = ".slipway"

// dockerfile is what builds the environment: one stage installs it, the other is
// the image. All that a user gave is in files, beside two image names that were
// parsed, and the commands, which are lines of a Dockerfile by contract.
func (c conda) dockerfile() string {
	var out strings.Builder
	fmt.Fprintf(&out, "FROM %s AS build\n", c.mambaImage)
	out.WriteString("USER 0\n")
	fmt.Fprintf(&out, "COPY %s/ /%s/\n", condaFolder, condaFolder)
	// The list form passes by the shell that an image may have set for itself.
	fmt.Fprintf(&out, "RUN [\"sh\", \"/%s/install.sh\"]\n\n", condaFolder)
	fmt.Fprintf(&out, "FROM %s\n", c.baseImage)
	out.WriteString("COPY --from=build /opt/conda /opt/conda\n")
	out.WriteString("ENV PATH=/opt/conda/bin:$PATH\n")
	for _, line := range c.commands {
		out.WriteString(line + "\n")
	}
	return out.String()
}

// files are those that the installer reads, and the installer.
func (c conda) files() []*buildv1.File {
	texts := []struct{ name, text string }{
		{"install.sh", condaInstaller}, {"conda.yml", c.environment.text}, {"lock-url", c.lockURL},
	}
	if len(c.basePackages) > 0 {
		texts = append(texts, struct{ name, text string }{"base.yml", condaFile(c.environment.channels, c.basePackages, nil)})
	}
	var files []*buildv1.File
	for _, f := range texts {
		if f.text != "" {
			files = append(files, &buildv1.File{Path: condaFolder + "/" + f.name, Content: []byte(f.text)})
		}
	}
	return files
}
