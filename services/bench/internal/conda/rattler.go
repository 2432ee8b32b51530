package conda

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/world"
	"slipway.dev/services/internal/testkit/condadata"
)

const (
	rattlerScript = "services/tools/oracle/time_solves.py"
	nameRattler   = "rattler"
)

// A rattler is a Python process that solves requests with py-rattler. All records of the
// channel are in its memory.
type rattler struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// startRattler starts the process, with py-rattler from PyPI in a virtual environment in the
// folder of the peers. It returns an error if python3, its module venv, or PyPI is missing.
func startRattler(w *world.World) (*rattler, error) {
	venv, err := w.Rattler()
	if err != nil {
		return nil, err
	}
	dir := must.Get(os.MkdirTemp(w.Dir, "rattler-"))
	for _, subdir := range indexFolders() {
		folder := filepath.Join(dir, forgeName, subdir)
		must.Do(os.MkdirAll(folder, 0o700))
		must.Do(os.WriteFile(filepath.Join(folder, "repodata.json"), condadata.Repodata(must.T{}, forgeName, subdir), 0o600))
	}
	cmd := exec.CommandContext(w.Ctx, filepath.Join(venv, "bin", "python"), rattlerScript, dir)
	cmd.Stderr = os.Stderr
	r := &rattler{cmd: cmd, in: must.Get(cmd.StdinPipe()), out: bufio.NewScanner(must.Get(cmd.StdoutPipe()))}
	must.Do(cmd.Start())
	if line := r.line(); string(line) != "ready" {
		must.Fail("py-rattler printed %q", line)
	}
	return r, nil
}

// solve returns the processor time of a solve and the number of records of the solution; 0
// records mean that the request has no solution.
func (r *rattler) solve(specs []string) (took time.Duration, records int) {
	must.Do(json.NewEncoder(r.in).Encode(map[string]any{"specs": specs}))
	var answer struct {
		CPU     float64 `json:"cpu"`
		Records int     `json:"records"`
	}
	must.Do(json.Unmarshal(r.line(), &answer))
	return time.Duration(answer.CPU * float64(time.Second)), answer.Records
}

// line reads a line of the process.
func (r *rattler) line() []byte {
	if !r.out.Scan() {
		must.Fail("py-rattler ended: %v", r.out.Err())
	}
	return r.out.Bytes()
}

// stop ends the process.
func (r *rattler) stop() {
	_ = r.in.Close() // the process ends with its input
	_ = r.cmd.Wait()
}
