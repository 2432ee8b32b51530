package artifact

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/limits"
)

// A Place is the location where a package is installed. The place and the artifact
// determine the result of Install completely.
type Place struct {
	// Prefix is an absolute path, for example "/opt/conda".
	Prefix string
	// Python is the environment's Python, for noarch packages; the zero value in an
	// environment without Python.
	Python spec.Python
	// Scratch is the folder for temporary files; "" is the system's. No file remains there.
	Scratch string
}

// installed returns the installed path of a path in the archive.
func (i *installer) installed(name string) (string, error) {
	if !i.python {
		return name, nil
	}
	out := name
	if rest, ok := strings.CutPrefix(name, "site-packages/"); ok {
		out = i.at.Python.SitePackages + "/" + rest
	} else if rest, ok := strings.CutPrefix(name, "python-scripts/"); ok {
		out = "bin/" + rest
	}
	if len(out) > limits.ArtifactPath {
		return "", invalid("the path %s is too long", clip(out))
	}
	return out, nil
}

// checkLink rejects a link without a valid target. The argument name is the link's
// installed path. Links may point anywhere, as that of ocl-icd-system to /etc/OpenCL. No
// file is ever written through a link: package layering rejects a path below a link, in a
// package and in an environment.
func checkLink(name, target string) error {
	if target == "" || len(target) > limits.ArtifactPath || strings.ContainsRune(target, 0) {
		return invalid("the link %s has no proper target", clip(name))
	}
	return nil
}

// entryPoint matches an entry point of info/link.json: "name = module:function". Lengths are checked
// separately: a program with counts of letters would take megabytes.
var entryPoint = regexp.MustCompile(`^\s*([A-Za-z0-9._+-]+)\s*=\s*([\pL_][\pL\pN_.]*)\s*:\s*([\pL_][\pL\pN_]*)((?:\.[\pL_][\pL\pN_]*)*)\s*$`)

// Maximum lengths of the parts of an entry point, in bytes.
const maxProgram, maxModule, maxFunction = 200, 400, 400

// script returns the program of an entry point, as all Conda installers write it.
func script(p spec.Python, prefix, point string) (name, text string, err error) {
	m := entryPoint.FindStringSubmatch(point)
	if m == nil || m[1] == "." || m[1] == ".." || len(m[1]) > maxProgram || len(m[2]) > maxModule || len(m[3])+len(m[4]) > maxFunction {
		return "", "", invalid("the entry point %s is malformed", clip(point))
	}
	const form = `#!%[1]s/bin/python%[2]s
# -*- coding: utf-8 -*-
import re
import sys

from %[3]s import %[4]s

if __name__ == '__main__':
    sys.argv[0] = re.sub(r'(-script\.pyw?|\.exe)?$', '', sys.argv[0])
    sys.exit(%[4]s%[5]s())
`
	return "bin/" + m[1], fmt.Sprintf(form, prefix, p.Minor, m[2], m[3], m[4]), nil
}

// buildTime returns when the package was built, in whole seconds, or the epoch if unknown. Old
// packages state it in seconds, newer ones in milliseconds.
func (x *index) buildTime() time.Time {
	const lastSecond = 253402300799 // in the year 9999
	s := x.Timestamp
	if s > lastSecond {
		s /= 1000
	}
	if s < 0 || s > lastSecond {
		s = 0
	}
	return time.Unix(int64(s), 0).UTC()
}
