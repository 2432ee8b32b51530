package sif

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"slipway.dev/services/builder/flatten"
)

// gunzip is the program igzip, which takes a third of the time that decompressing
// takes here; containerd uses it too. "" is none: layers are decompressed here then.
type gunzip string

// worthwhile is the length in bytes of a layer for which a program is started.
const worthwhile = 4 << 20

// of is the layer, decompressed as it is read.
func (g gunzip) of(l flatten.Layer) flatten.Layer {
	if g == "" || l.Size < worthwhile {
		return l
	}
	open := l.Open
	l.Open = func(ctx context.Context) (io.ReadCloser, error) {
		raw, err := open(ctx)
		if err != nil {
			return nil, err
		}
		source := &source{in: raw}
		in := bufio.NewReaderSize(source, 64<<10)
		magic, _ := in.Peek(2) // whoever reads meets the error again
		if !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
			return readCloser{in, raw}, nil
		}
		return g.start(ctx, l.Name, source, in, raw)
	}
	return l
}

type readCloser struct {
	io.Reader
	io.Closer
}

// source remembers its error.
type source struct {
	in  io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// start runs the program on in, which reads source, which reads raw.
func (g gunzip) start(ctx context.Context, name string, source *source, in io.Reader, raw io.Closer) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	u := &unpacking{layer: name, source: source, in: in, raw: raw, cancel: cancel}
	u.cmd = exec.CommandContext(ctx, string(g), "-dc")
	u.cmd.Env = []string{"LC_ALL=C"}
	u.cmd.WaitDelay = 5 * time.Second
	u.cmd.Stdin, u.cmd.Stderr = in, &u.said
	var err error
	if u.out, err = u.cmd.StdoutPipe(); err == nil {
		widen(u.out)
		err = u.cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("starting igzip: %w", err), raw.Close())
	}
	return u, nil
}

// unpacking is a layer on its way through the program.
type unpacking struct {
	layer  string
	source *source
	in     io.Reader
	raw    io.Closer
	cmd    *exec.Cmd
	cancel context.CancelFunc
	out    io.ReadCloser
	said   tail
	ended  error // what every further reading answers
}

// Read answers what the program makes of the layer. At the end it says what was
// wrong with the source, or refuses the layer.
func (u *unpacking) Read(p []byte) (int, error) {
	if u.ended != nil {
		return 0, u.ended
	}
	n, err := u.out.Read(p)
	if err == nil {
		return n, nil
	}
	if u.ended = u.end(err); n > 0 {
		return n, nil
	}
	return 0, u.ended
}

// end waits for the program, and reads what it left of the source, so that whoever
// opened the layer can check all of it.
func (u *unpacking) end(read error) error {
	waited := u.cmd.Wait()
	switch {
	case u.source.err != nil:
		return u.source.err
	case !errors.Is(read, io.EOF):
		return errors.Join(read, waited)
	case waited != nil:
		return &flatten.Refusal{Layer: u.layer, Why: "is damaged: it cannot be decompressed: " + u.said.String()}
	}
	if _, err := io.Copy(io.Discard, u.in); err != nil {
		return err
	}
	return io.EOF
}

// Close ends the program, if it has not ended.
func (u *unpacking) Close() error {
	u.cancel()
	err := u.raw.Close()
	if u.ended == nil {
		u.ended = errors.Join(errors.New("the layer was closed"), u.cmd.Wait())
	}
	return err
}
