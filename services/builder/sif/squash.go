package sif

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"slipway.dev/services/builder/flatten"
)

// Compression is how squashfs compresses. The zero value is zstd, at level 3.
type Compression struct {
	// Name is "zstd" or "gzip".
	Name string
	// Level is the compressor's; 0 is its own choice.
	Level int
}

// Tool is the program that writes squashfs, and how it compresses.
type Tool struct {
	path        string
	compression Compression
}

// Find looks for tar2sqfs. The error says what to install.
func Find(c Compression) (Tool, error) {
	if c.Name == "" {
		c = Compression{Name: "zstd", Level: 3}
	}
	path, err := exec.LookPath("tar2sqfs")
	if err != nil {
		return Tool{}, errors.New("there is no tar2sqfs on the PATH; install squashfs-tools-ng (apt-get install squashfs-tools-ng)")
	}
	return Tool{path: path, compression: c}, nil
}

// squash writes the layers to a squashfs file, and begins again where one reading of
// them is not enough.
func (t Tool) squash(ctx context.Context, path string, layers []flatten.Layer, limits flatten.Limits) (flatten.Summary, error) {
	summary, err := t.pipe(ctx, path, func(ctx context.Context, w io.Writer) (flatten.Summary, error) {
		return flatten.Write(ctx, w, layers, limits)
	})
	if !errors.Is(err, flatten.ErrTwice) {
		return summary, err
	}
	return t.pipe(ctx, path, func(ctx context.Context, w io.Writer) (flatten.Summary, error) {
		return flatten.WriteTwice(ctx, w, layers, limits)
	})
}

// pipe runs tar2sqfs on the tar that write writes.
func (t Tool) pipe(ctx context.Context, path string, write func(context.Context, io.Writer) (flatten.Summary, error)) (flatten.Summary, error) {
	args := []string{"--quiet", "--no-skip", "--force", "--compressor", t.compression.Name, "--num-jobs", strconv.Itoa(min(runtime.NumCPU(), 4))}
	if level := t.compression.Level; level > 0 {
		args = append(args, "--comp-extra", "level="+strconv.Itoa(level))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, t.path, append(args, path)...)
	cmd.Env = []string{"LC_ALL=C", "SOURCE_DATE_EPOCH=0"}
	cmd.WaitDelay = 5 * time.Second
	said := &tail{}
	cmd.Stdout, cmd.Stderr = said, said
	in, err := cmd.StdinPipe()
	if err != nil {
		return flatten.Summary{}, err
	}
	widen(in)
	if err := cmd.Start(); err != nil {
		return flatten.Summary{}, fmt.Errorf("starting tar2sqfs: %w", err)
	}
	buffered := bufio.NewWriterSize(in, 128<<10)
	summary, err := write(ctx, buffered)
	if err == nil {
		err = buffered.Flush()
	}
	if err != nil {
		cause := err
		gone := errors.Is(err, syscall.EPIPE)
		if !gone {
			cancel() // else it would make an image of the half
		}
		_ = in.Close()
		if waited := cmd.Wait(); gone && waited != nil {
			return summary, fmt.Errorf("tar2sqfs: %w: %s", waited, said)
		}
		return summary, cause
	}
	if err := in.Close(); err != nil {
		cancel()
		return summary, errors.Join(err, cmd.Wait())
	}
	if err := cmd.Wait(); err != nil {
		return summary, fmt.Errorf("tar2sqfs: %w: %s", err, said)
	}
	return summary, nil
}

// tail keeps the last that a program said.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if n := len(t.text) - 2000; n > 0 {
		t.text = t.text[n:]
	}
	return len(p), nil
}

func (t *tail) String() string { return string(bytes.TrimSpace(t.text)) }

// widen lets a pipe hold more, so that its two ends wait less for each other. Where
// the system allows no more, it stays as it is.
func widen(pipe io.Writer) {
	f, ok := pipe.(syscall.Conn)
	if !ok {
		return
	}
	if c, err := f.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 1<<20) })
	}
}
