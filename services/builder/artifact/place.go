package artifact

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"

	"slipway.dev/services/internal/conda"
	"slipway.dev/services/internal/limits"
)

// Place is where a package is installed. What it holds, and the artifact, decide
// everything that Install makes.
type Place struct {
	// Prefix is absolute, e.g. "/opt/conda".
	Prefix string
	// Python is the environment's, for packages that are for any; the zero value
	// where there is none.
	Python conda.Python
	// Scratch is the folder for files that cannot be held in memory; "" is the
	// system's. Nothing stays there.
	Scratch string
}

// installed is where a path of the archive goes.
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
		return "", bad("the path %s is too long", clip(out))
	}
	return out, nil
}

// checkLink refuses a link that leads out of the prefix. name is where it is
// installed.
func checkLink(name, target string) error {
	if target == "" || len(target) > limits.ArtifactPath || strings.ContainsRune(target, 0) {
		return bad("the link %s has no proper target", clip(name))
	}
	to := path.Join(path.Dir(name), target)
	if path.IsAbs(target) || to == ".." || strings.HasPrefix(to, "../") {
		return bad("the link %s leads out of the package, to %s", clip(name), clip(target))
	}
	return nil
}

// entryPoint is one of info/link.json: "name = module:function".
var entryPoint = regexp.MustCompile(`^\s*([A-Za-z0-9._+-]{1,200})\s*=\s*([\pL_][\pL\pN_.]{0,400})\s*:\s*([\pL_][\pL\pN_]{0,200})((?:\.[\pL_][\pL\pN_]{0,200})*)\s*$`)

// script is the program that an entry point stands for, as every installer of
// Conda packages writes it.
func script(p conda.Python, prefix, point string) (name, text string, err error) {
	m := entryPoint.FindStringSubmatch(point)
	if m == nil || m[1] == "." || m[1] == ".." {
		return "", "", bad("the entry point %s is malformed", clip(point))
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

// made is when the package was built, in whole seconds; the epoch where it does
// not say. Old packages say it in seconds, newer ones in milliseconds.
func (x *index) made() time.Time {
	const lastSecond = 253402300799 // of the year 9999
	s := x.Timestamp
	if s > lastSecond {
		s /= 1000
	}
	if s < 0 || s > lastSecond {
		s = 0
	}
	return time.Unix(int64(s), 0).UTC()
}
