package conda

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/conda/envfile"
	"slipway.dev/services/internal/fault"
)

// debianForR is the value of cranOpts.basePackages, a list of Debian packages, that client
// libraries send by default.
const debianForR = "littler r-cran-docopt"

// A choice is the value of an option that the user set, and the field that it comes from.
// The zero value means that the option is not set.
type choice struct {
	field  string
	values []string
}

// single returns the choice among fields with the same meaning. It returns fault.Invalid if
// two of them are set to different values.
func single(all ...choice) (choice, error) {
	var out choice
	for _, c := range all {
		switch {
		case c.field == "":
		case out.field == "":
			out = c
		case !slices.Equal(out.values, c.values):
			return out, fault.Invalid.Newf("%s and %s differ; set only one of them", out.field, c.field)
		}
	}
	return out, nil
}

// chosenImage returns the choice of an image by its full name. An image that client libraries
// send by default counts as not set.
func chosenImage(field, requested string, clientDefaults []string) (choice, error) {
	name, own, err := chosen(requested, "", clientDefaults)
	if err != nil || !own {
		return choice{}, fault.In(field, err)
	}
	return choice{field, []string{name}}, nil
}

func chosenCommands(field string, lines []string) choice {
	if len(lines) == 0 {
		return choice{}
	}
	return choice{field, lines}
}

// setOptions sets the options of packages, with defaults for options that the user did not
// set. Clients send the options of several installers in one request.
func (r *Recipe) setOptions(p *containerv1.Packages, usual Defaults) error {
	if o := p.GetCondaOpts(); o != nil {
		r.compile, r.options = o.GetCompile(), proto.CloneOf(o)
	}
	usual, err := usual.Qualified()
	if err == nil {
		err = checkWithoutEffect(p, usual)
	}
	if err == nil {
		err = r.setImages(p, usual)
	}
	if err == nil {
		err = r.setBasePackages(p)
	}
	if err == nil {
		err = r.setCommands(p)
	}
	return err
}

// show changes the options that are shown to users.
func (r *Recipe) show(set func(o *containerv1.CondaOptions)) {
	if r.options == nil {
		r.options = &containerv1.CondaOptions{}
	}
	set(r.options)
}

// checkWithoutEffect rejects options that the user set but that would have no effect.
func checkWithoutEffect(p *containerv1.Packages, usual Defaults) error {
	pixi, err := chosenImage("packages.pixiOpts.pixiImage", p.GetPixiOpts().GetPixiImage(), usual.ClientPixi)
	if err != nil {
		return err
	}
	cran := p.GetCranOpts()
	r, err := chosenImage("packages.cranOpts.rImage", cran.GetRImage(), usual.ClientR)
	if err != nil {
		return err
	}
	packages := strings.Join(strings.Fields(cran.GetBasePackages()), " ")
	switch {
	case pixi.field != "":
		return fault.Invalid.Newf("%s is not supported: pixi is not used to install packages; omit the field", pixi.field)
	case len(cran.GetCommands()) > 0 && p.GetType() != TypeCRAN:
		return fault.Invalid.Newf("packages.cranOpts.commands is only for packages of type CRAN; use packages.condaOpts.commands instead")
	case r.field != "":
		return fault.Invalid.Newf("%s is not supported: R is installed as a Conda package; omit the field, set a version of R with an entry such as R=4.3, and a base image with packages.condaOpts.baseImage", r.field)
	case packages != "" && packages != debianForR:
		return fault.Invalid.Newf("packages.cranOpts.basePackages is not supported: Debian packages are not installed; omit the field, and list Conda packages in packages.condaOpts.basePackages")
	}
	return nil
}

func (r *Recipe) setImages(p *containerv1.Packages, usual Defaults) (err error) {
	o := p.GetCondaOpts()
	if r.mambaImage, r.ownInstaller, err = chosen(o.GetMambaImage(), usual.Mamba, usual.ClientMamba); err != nil {
		return fault.In("packages.condaOpts.mambaImage", err)
	}
	ofConda, err := chosenImage("packages.condaOpts.baseImage", o.GetBaseImage(), usual.ClientBase)
	if err != nil {
		return err
	}
	ofPixi, err := chosenImage("packages.pixiOpts.baseImage", p.GetPixiOpts().GetBaseImage(), usual.ClientBase)
	if err != nil {
		return err
	}
	base, err := single(ofConda, ofPixi)
	r.baseImage = usual.Base
	if base.field != "" {
		r.baseImage, r.baseField = base.values[0], base.field
	}
	if ofConda.field == "" && ofPixi.field != "" {
		r.show(func(o *containerv1.CondaOptions) { o.BaseImage = p.GetPixiOpts().GetBaseImage() })
	}
	return err
}

func (r *Recipe) setBasePackages(p *containerv1.Packages) error {
	var ofConda, ofPixi choice
	if o := p.GetCondaOpts(); o != nil && o.BasePackages != nil {
		ofConda = choice{"packages.condaOpts.basePackages", strings.Fields(o.GetBasePackages())}
	}
	if o := p.GetPixiOpts(); o != nil && o.BasePackages != nil && !slices.Equal(strings.Fields(o.GetBasePackages()), envfile.BasePackages()) {
		ofPixi = choice{"packages.pixiOpts.basePackages", strings.Fields(o.GetBasePackages())}
	}
	if slices.Equal(ofConda.values, envfile.BasePackages()) {
		ofConda = choice{}
	}
	packages, err := single(ofConda, ofPixi)
	r.basePackages = envfile.BasePackages()
	if packages.field != "" {
		r.basePackages = packages.values
	}
	if ofConda.field == "" && ofPixi.field != "" {
		r.show(func(o *containerv1.CondaOptions) { o.BasePackages = p.GetPixiOpts().BasePackages })
	}
	for _, spec := range packages.values {
		if err := checkSpec(spec); err != nil {
			return fault.In(packages.field, err)
		}
	}
	return err
}

func (r *Recipe) setCommands(p *containerv1.Packages) error {
	commands, err := single(
		chosenCommands("packages.condaOpts.commands", p.GetCondaOpts().GetCommands()),
		chosenCommands("packages.pixiOpts.commands", p.GetPixiOpts().GetCommands()),
		chosenCommands("packages.cranOpts.commands", p.GetCranOpts().GetCommands()),
	)
	r.commands, r.commandsField = commands.values, commands.field
	if len(commands.values) > len(p.GetCondaOpts().GetCommands()) {
		r.show(func(o *containerv1.CondaOptions) { o.Commands = commands.values })
	}
	for i, line := range r.commands {
		if strings.ContainsRune(line, 0) {
			return fault.Invalid.Newf("%s[%d] must be a line of a Dockerfile", r.commandsField, i)
		}
	}
	return err
}

// Options returns the options as shown to users, or nil.
func (r Recipe) Options() *containerv1.CondaOptions { return r.options }

// Commands returns the Dockerfile lines of the request, and the field that they come from.
func (r Recipe) Commands() (field string, lines []string) { return r.commandsField, r.commands }
