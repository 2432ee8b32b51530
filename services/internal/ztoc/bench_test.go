package ztoc_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/sys/unix"

	"slipway.dev/services/internal/ztoc"
)

// sample returns a tar like that of a Conda package: a program, and the text of this package
// in small files. SLIPWAY_BENCH_LAYER is a folder whose files are measured instead.
func sample(b *testing.B) []byte {
	b.Helper()
	executable, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	program, err := os.ReadFile(executable)
	if err != nil {
		b.Fatal(err)
	}
	text, err := os.ReadFile("inflate.go")
	if err != nil {
		b.Fatal(err)
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if folder := os.Getenv("SLIPWAY_BENCH_LAYER"); folder != "" {
		if err := errors.Join(w.AddFS(os.DirFS(folder)), w.Close()); err != nil {
			b.Fatal(err)
		}
		return out.Bytes()
	}
	for i := range 5000 {
		content := text
		if i%1000 == 0 {
			content = program
		}
		if err := w.WriteHeader(&tar.Header{Name: "opt/conda/lib/" + strconv.Itoa(i), Typeflag: tar.TypeReg, Size: int64(len(content)), Mode: 0o644}); err != nil {
			b.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	return out.Bytes()
}

// processorTime returns the processor time that this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}

// BenchmarkWriter compares compression with compression that records the zTOC ("recorded"),
// and with reading the zTOC from the compressed layer ("read"). It alternates between them and
// reports the ratios of the shortest times, since other programs disturb the mean.
func BenchmarkWriter(b *testing.B) {
	raw := sample(b)
	var packed bytes.Buffer
	plain, err := gzip.NewWriterLevel(nil, 6)
	if err != nil {
		b.Fatal(err)
	}
	recorder, err := ztoc.NewWriter(nil, 6)
	if err != nil {
		b.Fatal(err)
	}
	compress := func(w interface {
		io.WriteCloser
		Reset(out io.Writer)
	},
	) time.Duration {
		packed.Reset()
		sums := io.MultiWriter(&packed, sha256.New())
		buffered := bufio.NewWriterSize(sums, 64<<10)
		w.Reset(buffered)
		start := processorTime(b)
		for rest := raw; len(rest) > 0; {
			n := min(len(rest), 64<<10)
			if _, err := w.Write(rest[:n]); err != nil {
				b.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := errors.Join(w.Close(), buffered.Flush()); err != nil {
			b.Fatal(err)
		}
		return processorTime(b) - start
	}
	best := [3]time.Duration{time.Hour, time.Hour, time.Hour}
	for b.Loop() {
		best[0] = min(best[0], compress(plain))
		recorded := compress(recorder)
		start := processorTime(b)
		recorder.Ztoc().Marshal("test")
		best[1] = min(best[1], recorded+processorTime(b)-start)
		start = processorTime(b)
		if _, err := ztoc.FromGzip(bytes.NewReader(packed.Bytes())); err != nil {
			b.Fatal(err)
		}
		best[2] = min(best[2], processorTime(b)-start)
	}
	b.ReportMetric(float64(len(raw))/1e6/best[0].Seconds(), "MB/s")
	b.ReportMetric(100*(best[1].Seconds()/best[0].Seconds()-1), "%recorded")
	b.ReportMetric(100*best[2].Seconds()/best[0].Seconds(), "%read")
}
