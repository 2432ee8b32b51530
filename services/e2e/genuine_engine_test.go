package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestGenuineNextflowWithoutEngine runs a pipeline as an ordinary user of a cluster who has no container engine: the command line is Singularity.
func TestGenuineNextflowWithoutEngine(t *testing.T) {
	genuine(t)
	needClients(t)
	l := newLaboratory(t, nil, nil)
	newMounter(t, l.program) // allows the user to execute the command line
	engines := []string{"singularity", "apptainer"}
	for i, version := range nextflows {
		engine := engines[i%len(engines)]
		t.Run(version+" "+engine, func(t *testing.T) {
			programs := ordinaryFolder(t)
			w := newOrdinaryDesk(t, "SLIPWAY_CACHE="+filepath.Join(programs, "cache"), "SLIPWAY_SERVER="+l.url)
			if err := os.Symlink(filepath.Join(binaries, "slipway"), filepath.Join(programs, engine)); err != nil {
				t.Fatal(err)
			}
			w.env[0] = "PATH=" + programs + ":/usr/bin:/bin"
			w.write(t, "main.nf", `
process IMAGE { container '`+l.base+`'; debug true; script: 'echo "image: $(cat /etc/debian_version) $(id -u) $PPID"' }
process PACKAGES { conda 'bioconda::samtools=1.20'; debug true; input: val x; output: path 'out.txt'; script: 'samtools > out.txt; echo "packages: $(cat out.txt)"' }
process FILES { container '`+l.base+`'; debug true; input: path x; script: "echo file: \$(cat $x)" }
process FAILS { container '`+l.base+`'; errorStrategy 'ignore'; script: 'exit 3' }
workflow { IMAGE(); PACKAGES(1); FILES(PACKAGES.out); FAILS() }
`)
			w.write(t, "nextflow.config", fmt.Sprintf("wave { enabled = true; endpoint = '%s'; strategy = ['conda', 'container'] }\n%s.enabled = true\n", l.url, engine))
			w.own(t)
			want := []string{"image: 12", " 65534 ", "packages: samtools 1.20", "file: samtools 1.20", "terminated with an error exit status (3) -- Error is ignored"}
			w.must(t, want, "nextflow-"+version, "run", "main.nf")
		})
	}
}

// own gives the files of the desk to its user.
func (w desk) own(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(w.dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, nobodyID, nobodyID))
	})
	if err != nil {
		t.Fatal(err)
	}
}
