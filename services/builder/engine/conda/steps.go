package conda

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/conda/packages/artifact"
	"slipway.dev/services/conda/packages/layering"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// installer runs the commands of packages and pip, in a step on the image of the packages.
//
//go:embed steps.sh
var installer string

// rInstaller builds R packages from source, in the same step.
//
//go:embed cran.R
var rInstaller string

// stepsDir is the folder of the step's files in the build context, next to the recipe's.
const stepsDir = ".slipway"

// remainder holds the commands that have to run on an image of packages. The zero value is
// none.
type remainder struct {
	// links are the scripts of packages, in the installer's format.
	links []string
	// why is the reason for running commands.
	why string
}

// remainder finds the commands of the packages and the recipe that have to run, and prints
// the messages of other scripts.
func (e *environment) remainder(packages []layering.Package) (remainder, error) {
	var left remainder
	if r := e.job.Recipe; r.GetContainerFile() != "" || len(r.GetFiles()) > 0 {
		left.why = "The request's commands, packages of pip or CRAN, or the compilation of modules must be run"
	}
	for i, p := range packages {
		for _, s := range p.LinkScripts {
			if err := e.script(&left, e.records[i], s); err != nil {
				return left, err
			}
		}
	}
	if n := len(left.links); n > limits.CondaScripts {
		return left, jobs.Build.Failure(fmt.Sprintf("%d scripts of packages would have to be run; the maximum is %d", n, limits.CondaScripts), nil)
	}
	return left, nil
}

// script adds a package's script to the remainder, or prints its message.
func (e *environment) script(left *remainder, rec spec.Record, s artifact.Script) error {
	switch s.Effect() {
	case artifact.MustRun:
		return left.link(rec, s)
	case artifact.Message:
		for line := range strings.Lines(s.MessageText(spec.Prefix, rec.Name)) {
			e.out.Print("", rec.Name+": "+strings.TrimRight(line, "\n"))
		}
	case artifact.Nothing:
	}
	return nil
}

// link adds a script that has to run. The first one is stated as the reason.
func (r *remainder) link(rec spec.Record, s artifact.Script) error {
	line, err := linkLine(rec, s)
	if err != nil {
		return err
	}
	if r.links = append(r.links, line); len(r.links) == 1 {
		r.why = fmt.Sprintf("The package %s %s %s runs a script when it is installed (%s)", rec.Name, rec.Version, rec.Build, s.Path)
	}
	return nil
}

// words matches what a line of the installer may contain.
var words = regexp.MustCompile(`^[A-Za-z0-9_.+!~/-]{1,256}$`)

// linkLine returns a package's script in the installer's format.
func linkLine(rec spec.Record, s artifact.Script) (string, error) {
	for _, w := range []string{s.Path, rec.Name, rec.Version} {
		if !words.MatchString(w) {
			return "", jobs.Build.Failure(fmt.Sprintf("The package %s %s has a script, but a name or version that cannot be passed to a script", fault.Quote(rec.Name), fault.Quote(rec.Version)), nil)
		}
	}
	return fmt.Sprintf("%s\t%s\t%s\t%d\n", s.Path, rec.Name, rec.Version, rec.BuildNumber), nil
}

// needed returns how the build continues: the commands to run on the pushed image before
// the recipe's own steps.
func (e *environment) needed(left remainder, image layering.Image, digest string) error {
	user, err := userOf(image)
	if err != nil {
		return err
	}
	steps := &buildv1.Steps{ContainerFile: "FROM " + e.job.RepositoryName() + "@" + digest + "\n"}
	if len(left.links) > 0 || len(e.job.Recipe.GetFiles()) > 0 {
		run := "RUN --mount=type=bind,source=" + stepsDir + ",target=/" + stepsDir + ` ["sh", "/` + stepsDir + `/install.sh"]` + "\n"
		if user != "" {
			run = "USER 0\n" + run + "USER " + user + "\n"
		}
		steps.ContainerFile += run
		steps.Files = append(steps.Files, &buildv1.File{Path: stepsDir + "/install.sh", Content: []byte(installer)})
	}
	if slices.ContainsFunc(e.job.Recipe.GetFiles(), func(f *buildv1.File) bool { return f.GetPath() == stepsDir+"/cran" }) {
		steps.Files = append(steps.Files, &buildv1.File{Path: stepsDir + "/cran.R", Content: []byte(rInstaller)})
	}
	if len(left.links) > 0 {
		steps.Files = append(steps.Files, &buildv1.File{Path: stepsDir + "/links", Content: []byte(strings.Join(left.links, ""))})
	}
	e.out.Print("", left.why+": that is done in steps on the image of the packages")
	return &jobs.StepsNeeded{Failure: jobs.Failure{Reason: jobs.Build, Message: left.why}, Digest: digest, Steps: steps}
}

// users matches the users that a Dockerfile can name.
var users = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,128}$`)

// userOf returns the user of an image's containers; "" for root.
func userOf(image layering.Image) (string, error) {
	var config struct{ Config struct{ User string } }
	if err := json.Unmarshal(image.Config.Bytes, &config); err != nil {
		return "", err
	}
	user := config.Config.User
	switch name, _, _ := strings.Cut(user, ":"); {
	case name == "" || name == "0" || name == "root":
		return "", nil
	case !users.MatchString(user):
		return "", jobs.Build.Failure("The base image has the user "+fault.Quote(user)+", which no Dockerfile can name: nothing can be run on it", nil)
	}
	return user, nil
}
