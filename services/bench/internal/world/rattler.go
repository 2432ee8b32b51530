package world

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// rattlerPackage is the package at PyPI, which services/tools/oracle/install.sh pins too.
const rattlerPackage = "py-rattler==0.28.0"

// Rattler returns the virtual environment with py-rattler from PyPI in the folder of the peers, which it creates
// unless an earlier run created it. It returns an error if python3, its module venv, or PyPI is missing.
func (w *World) Rattler() (venv string, err error) {
	venv = filepath.Join(w.Bin, rattlerPackage)
	installed := filepath.Join(venv, "installed")
	if _, err := os.Stat(installed); err == nil {
		return venv, nil
	}
	for _, args := range [][]string{
		{"python3", "-m", "venv", "--clear", venv},
		{filepath.Join(venv, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", "--retries", "1", "--timeout", "10", rattlerPackage},
	} {
		if out, err := exec.CommandContext(w.Ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w: %s", args[0], err, out)
		}
	}
	return venv, os.WriteFile(installed, nil, 0o600)
}
