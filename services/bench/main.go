// Command bench measures the slipwayd binary against its peers. It starts real processes,
// loads them over HTTP, and prints figures with their limits. Since machines differ and are
// noisy, ratios compare contenders that took turns within one run. It imports only these
// parts of the product: the solver and the lists of Conda packages, which are measured
// directly, and the reader of their artifacts, whose files are counted. The peers are built
// from services/tools, except for zot (zotregistry.dev), which is used if it is on PATH.
//
//	go run ./services/bench -only digest,submit -rounds 3
//
// A measurement is an entry of the table of sections and a file of package measure or
// conda. It is written without error returns: package must ends the section when a step
// fails.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"slipway.dev/services/bench/internal/conda"
	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/world"
)

// flags are the command line flags of a run.
type flags struct {
	world.Settings
	// only lists the names of the sections to run; empty runs all.
	only []string
	// out is the file for the JSON; "" is standard output.
	out string
	// page is the file for the plots; "" writes none.
	page string
}

func readFlags() (flags, error) {
	var s flags
	var only string
	flag.StringVar(&s.Binary, "slipwayd", "bin/slipwayd", "the binary to measure")
	flag.StringVar(&s.Bin, "bin", "bin/bench", "folder where the peers are built")
	flag.StringVar(&only, "only", "", "comma list of sections: "+strings.Join(sectionNames(), ", "))
	flag.StringVar(&s.out, "out", "", "file for the JSON instead of standard output")
	flag.StringVar(&s.page, "report", "", "file for a page of HTML that shows the figures beside those of the other contenders")
	flag.StringVar(&s.Profiles, "profiles", "", "folder for CPU profiles of slipwayd, taken after the measured rounds")
	flag.IntVar(&s.Rounds, "rounds", 5, "how often contenders take turns")
	flag.IntVar(&s.Requests, "requests", 20_000, "requests of one turn at full load")
	flag.IntVar(&s.Pulls, "pulls", 500, "concurrent pulls")
	flag.IntVar(&s.BlobMiB, "blob", 1024, "size of the large blob in MiB")
	flag.Parse()
	if only != "" {
		s.only = strings.Split(only, ",")
	}
	if s.Rounds < 1 || s.Requests < 100 || s.Pulls < 1 || s.BlobMiB < 1 {
		return s, errors.New("rounds, pulls and blob are 1 or more, requests 100 or more")
	}
	for _, path := range []*string{&s.Binary, &s.Bin} {
		abs, err := filepath.Abs(*path)
		if err != nil {
			return s, err
		}
		*path = abs
	}
	if _, err := os.Stat(s.Binary); err != nil {
		return s, fmt.Errorf("there is nothing to measure (make build): %w", err)
	}
	return s, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	run := bench
	if len(os.Args) > 1 && os.Args[1] == conda.StepCommand {
		run = conda.TakeStep
	}
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench runs the selected sections and prints their figures, even after an error.
func bench(ctx context.Context) (err error) {
	s, err := readFlags()
	if err != nil {
		return err
	}
	chosen, err := choose(s.only)
	if err != nil {
		return err
	}
	w, err := world.New(ctx, s.Settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	r := figure.New(s.Binary, s.Rounds)
	return errors.Join(runAll(w, r, chosen), r.Print(s.out), writePage(r, s.page))
}

// writePage writes the page of a report, if it has a name.
func writePage(r *figure.Report, name string) error {
	if name == "" {
		return nil
	}
	var page bytes.Buffer
	if err := r.WritePage(&page); err != nil {
		return fmt.Errorf("drawing the report: %w", err)
	}
	return os.WriteFile(name, page.Bytes(), 0o644)
}

// runAll runs the sections. If one fails, the others still run.
func runAll(w *world.World, r *figure.Report, chosen []section) error {
	var problems []error
	r.Machine.BusyBefore = figure.Busy()
	for _, sec := range chosen {
		if w.Ctx.Err() != nil {
			break
		}
		fmt.Fprintf(os.Stderr, "bench: %s\n", sec.name)
		if err := sec.run(w, r.Sheet(sec.name)); err != nil {
			problems = append(problems, fmt.Errorf("section %s: %w", sec.name, err))
		}
	}
	r.Machine.BusyAfter = figure.Busy()
	return errors.Join(problems...)
}
