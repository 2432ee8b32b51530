package definition_test

import (
	"errors"
	"strings"
	"testing"

	"slipway.dev/services/container/definition"
	"slipway.dev/services/internal/dockerfile"
	"slipway.dev/services/internal/fault"
)

const whole = `# A comment before the header
BootStrap: docker
From: ubuntu:24.04

%files
    tool.sh /opt/tool.sh
    "a file" /opt/
    data
%environment
    export GREETING=hello
%post -c /bin/bash
    apt-get update
    printf '%s\n' "$HOME" # %post is only a section at the start of a line
%d is text, too
%labels
    Author ada
    org.example.price "5 $ \ each"
%runscript
    exec tool "$@"
%startscript
    #!/bin/dash
    exec sleep 1
%test
    test -f /opt/tool.sh
%help
    Call tool.
`

// TestTranslate checks the Dockerfile and the files of a definition with every section.
func TestTranslate(t *testing.T) {
	t.Parallel()
	if !definition.Is(whole) || definition.Is("FROM a\nBootstrap: docker") || definition.Is("") {
		t.Error("Is does not recognise a definition by its first header")
	}
	d, err := definition.Read(whole)
	if err != nil {
		t.Fatal(err)
	}
	const want = `FROM ubuntu:24.04
USER 0
SHELL ["/bin/sh","-c"]
COPY ["tool.sh","/opt/tool.sh"]
COPY ["a file","/opt/"]
COPY ["data","/data"]
COPY --chmod=755 .slipway-definition/d/ /.singularity.d/
RUN --mount=type=bind,source=.slipway-definition/post,target=/.singularity.d/post APPTAINER_ENVIRONMENT=/.singularity.d/env/91-environment.sh SINGULARITY_ENVIRONMENT=/.singularity.d/env/91-environment.sh /bin/bash -ex /.singularity.d/post
LABEL org.slipway.definition=1
LABEL "Author"="ada"
LABEL "org.example.price"="5 \$ \\ each"
ENTRYPOINT ["/.singularity.d/entrypoint"]
RUN for script in /.singularity.d/env/*.sh; do if [ -f "$script" ]; then . "$script"; fi; done; exec /.singularity.d/test
`
	if got := d.Dockerfile(); got != want {
		t.Errorf("the Dockerfile is\n%s", got)
	}
	if _, err := dockerfile.Read(d.Dockerfile()); err != nil || !d.NeedsContext() {
		t.Errorf("%v, needs a context: %t", err, d.NeedsContext())
	}
	files := map[string]string{}
	for _, f := range d.Files() {
		files[f.Path] = f.Content
	}
	for path, want := range map[string]string{
		"post":                    "    apt-get update\n    printf '%s\\n' \"$HOME\" # %post is only a section at the start of a line\n%d is text, too\n",
		"d/env/90-environment.sh": "#!/bin/sh\n    export GREETING=hello\n",
		"d/env/91-environment.sh": "#!/bin/sh\n",
		"d/runscript":             "#!/bin/sh\n    exec tool \"$@\"\n",
		"d/startscript":           "#!/bin/dash\n    exec sleep 1\n",
		"d/test":                  "#!/bin/sh\n    test -f /opt/tool.sh\n",
		"d/runscript.help":        "    Call tool.\n",
	} {
		if got := files[".slipway-definition/"+path]; got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	if len(files) != 8 {
		t.Errorf("the files are %q", files)
	}
	if d, err := definition.Read("Bootstrap: docker\nRegistry: quay.io\nNamespace: team/\nFrom: tool:1\n"); err != nil || d.From != "quay.io/team/tool:1" || d.NeedsContext() || d.IsLocal {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err := definition.Read("Bootstrap: localimage\r\nFrom: oras://h.example/wt/abc/tool:1\r\n"); err != nil || d.From != "h.example/wt/abc/tool:1" || !d.IsLocal || !d.MayBeSif {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err := definition.Read("Bootstrap: oras\nFrom: oras://h.example/team/tool:1\n"); err != nil || d.From != "h.example/team/tool:1" || d.IsLocal || !d.MayBeSif {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestRefused checks that parts that cannot be built are rejected by name.
func TestRefused(t *testing.T) {
	t.Parallel()
	const head = "Bootstrap: docker\nFrom: a\n"
	for text, want := range map[string]string{
		head + "%setup\ntrue\n":                                "line 3: %setup would run outside the container",
		head + "%pre\n":                                        "line 3: %pre would run outside",
		head + "%arguments\n":                                  "%arguments is not supported",
		head + "%appinstall foo\n":                             "%appinstall is not supported",
		head + "%pots\n":                                       "line 3: %pots is not a section",
		head + "%post\ntrue\n%environmen\n":                    "line 5: %environmen is not a section",
		head + "%post\n%post\n":                                "two sections %post",
		head + "%post -x /bin/sh\n":                            "%post takes -c",
		head + "%post -c bash\n":                               "%post takes -c",
		head + "%runscript -c /bin/bash\n":                     "%runscript takes no arguments",
		head + "%files from build\na b\n":                      "from a stage is not supported",
		head + "%files\na b c\n":                               "a path of the build context",
		head + "%files\n\"a b\n":                               "a path of the build context",
		head + "%files\n$HOME/a /b\n":                          "no $",
		head + "%labels\n=a b\n":                               "in %labels",
		head + "Stage: build\n":                                "several stages",
		head + "Bootstrap: docker\n":                           "several stages",
		head + "From: b\n":                                     "two headers From",
		head + "MirrorURL: http://a\n":                         "the header MirrorURL is not supported",
		head + "hello\n":                                       "neither a header",
		head + "%post\n\x00":                                   "NUL",
		"Bootstrap: docker\n":                                  "From must be the name",
		"Bootstrap: docker\nFrom: a b\n":                       "From must be the name",
		"Bootstrap: docker\nFrom: $A\n":                        "From must be the name",
		"Bootstrap: library\nFrom: a\n":                        "Bootstrap: library is not supported",
		"Bootstrap: debootstrap\nFrom: a\n":                    "Bootstrap: debootstrap is not supported",
		"Bootstrap: oras\nRegistry: h\nFrom: a:1\n":            "go with Bootstrap: docker",
		"Bootstrap: localimage\nFrom: base.sif\n":              "not a file of your machine",
		"Bootstrap: localimage\nFrom: /data/base.sif\n":        "not a file of your machine",
		head + "%files\n" + strings.Repeat("a b\n", 501):       "more than 500 lines",
		head + "%labels\n" + strings.Repeat("a b\n", 501):      "more than 500 lines",
		head + "%labels\n" + strings.Repeat("a", 200) + " b\n": "in %labels",
	} {
		if _, err := definition.Read(text); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
}

// FuzzRead checks that every translated Dockerfile has the base image and the instructions
// of the definition, and no others.
func FuzzRead(f *testing.F) {
	f.Add(whole)
	f.Add("Bootstrap: docker\nFrom: a\n%labels\na \"b\\\nRUN x\n")
	f.Add("Bootstrap: docker\nFrom: a\vAS\vb\n")
	f.Add("Bootstrap: docker\nFrom: a\n%files\n'a\tb' c\n")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := definition.Read(text)
		if err != nil {
			if !errors.Is(err, fault.Invalid) || len(err.Error()) > 1000 {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		out := d.Dockerfile()
		lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		if lines[0] != "FROM "+d.From || strings.Count(text, "\n")+10 < len(lines) {
			t.Errorf("%q is translated to %q", text, out)
		}
		for _, line := range lines[1:] {
			word, _, _ := strings.Cut(line, " ")
			if !strings.Contains("USER SHELL COPY RUN LABEL ENTRYPOINT", word) || strings.HasSuffix(line, "\\") {
				t.Errorf("%q is translated to %q", text, out)
			}
		}
		for _, file := range d.Files() {
			if !strings.HasPrefix(file.Path, ".slipway-definition/") {
				t.Errorf("%q has the file %q", text, file.Path)
			}
		}
	})
}
