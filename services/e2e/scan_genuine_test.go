package e2e

import "testing"

// TestGenuineScan requires scans with the genuine Nextflow and Wave's command line. Both must get the
// image if what was found is tolerated, and a refusal otherwise; Nextflow prints its reason.
func TestGenuineScan(t *testing.T) {
	genuine(t)
	needClients(t)
	dir := t.TempDir()
	scanDatabase(t, dir, advisory{"DEBIAN-CVE-2026-1", "libc6", "3.0", isCritical})
	l := newLaboratory(t, nil, scanned(dir))
	image := l.registry.Push(t, "lib/bad:1", debianImage(t, "amd64", "libc6", "2.36"))
	l.submitScanned(t, map[string]any{"containerImage": image, "scanMode": "async"}) // the data is loaded
	w := newDesk(t)
	w.write(t, "main.nf", "process A { container '"+image+"'; script: 'true' }\nworkflow { A() }\n")
	for _, version := range nextflows {
		for levels, refused := range map[string]bool{"low,medium": true, "critical": false} {
			w.write(t, "nextflow.config", waveConfig(l.program, "wave.scan.mode = 'required'\nwave.scan.allowedLevels = '"+levels+"'"))
			args := []string{"inspect", "-concretize", "-format", "json", "."}
			if refused {
				w.fails(t, []string{"The scan found 1 CRITICAL vulnerability", "/view/scans/sc-"}, "nextflow-"+version, args...)
			} else {
				w.must(t, []string{"lib/bad:1"}, "nextflow-"+version, args...)
			}
		}
	}
	args := []string{"--wave-endpoint", l.url, "--image", image, "--scan-mode", "required", "--await", "--output", "json", "--scan-level"}
	w.must(t, []string{`"succeeded":true`}, "wave", append(args, "CRITICAL")...)
	w.must(t, []string{`"succeeded":false`}, "wave", append(args, "LOW")...)
}
