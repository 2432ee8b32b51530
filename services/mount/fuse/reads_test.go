package fuse

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway.dev/services/mount/erofs"
	"slipway.dev/services/mount/mounttest"
)

// hanging is a source whose reads wait until it is closed.
type hanging chan struct{}

func (h hanging) ReadAt(int, []byte, int64) error {
	<-h
	return errors.New("the source hangs")
}

// A Reader whose bytes are those of one device.
type blob []byte

func (b blob) ReadAt(_ int, p []byte, off int64) error {
	copy(p, b[off:])
	return nil
}

func open(t *testing.T, p mounttest.Package) *erofs.Index {
	t.Helper()
	x, err := erofs.Open(mounttest.Index(t, p))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func find(t *testing.T, x *erofs.Index, path string) uint64 {
	t.Helper()
	nid := x.Root()
	for name := range strings.SplitSeq(path, "/") {
		var ok bool
		if nid, ok = x.Lookup(nid, name); !ok {
			t.Fatalf("%s does not exist", path)
		}
	}
	return nid
}

func readRequest(nid, offset uint64, size uint32) request {
	body := make([]byte, 40)
	order.PutUint64(body[8:], offset)
	order.PutUint32(body[16:], size)
	return request{op: opRead, node: nid, body: body}
}

// A kernel takes a short response for the end of the file.
func TestLargeReadsAreNotCut(t *testing.T) {
	t.Parallel()
	want := strings.Repeat("0123456789abcdef", 3<<20/16)
	x := open(t, mounttest.Pack(t, mounttest.Files{"large": want}))
	s := NewServer(-1, x, blob(want), Options{})
	nid := find(t, x, "large")
	for _, one := range []struct {
		offset uint64
		size   uint32
		want   string
		errno  syscall.Errno
	}{
		{0, 1 << 20, want[:1<<20], 0},
		{3<<20 - 100, 1 << 20, want[3<<20-100:], 0},
		{3 << 20, 4096, "", 0},
		{0, 2 << 20, "", unix.EIO},
		{0, 1<<32 - 1, "", unix.EIO},
	} {
		out, errno := s.handle(readRequest(nid, one.offset, one.size), make([]byte, outHeader))
		if errno != one.errno || errno == 0 && !bytes.Equal(out[outHeader:], []byte(one.want)) {
			t.Errorf("%d bytes at %d: %d bytes, %v", one.size, one.offset, len(out)-outHeader, errno)
		}
	}
}

func TestPagesOfARead(t *testing.T) {
	t.Parallel()
	for pageSize, want := range map[int]uint16{4 << 10: 32, 16 << 10: 8, 64 << 10: 2, 256 << 10: 1} {
		body := make([]byte, 16)
		order.PutUint32(body, 7)
		order.PutUint32(body[4:], 31)
		out, errno := initialize(request{body: body}, nil, pageSize)
		if errno != 0 || order.Uint16(out[28:]) != want {
			t.Errorf("pages of %d bytes: %v, %d pages", pageSize, errno, order.Uint16(out[28:]))
		}
	}
}

// mountTest mounts a server, and skips the test where that is not possible.
func mountTest(t *testing.T, x *erofs.Index, files Reader) string {
	t.Helper()
	_, folder := mountServer(t, x, files)
	return folder
}

func mountServer(t *testing.T, x *erofs.Index, files Reader) (*Server, string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: only root can mount")
	}
	folder := t.TempDir()
	fd, err := Mount(folder, 0, 0, false)
	if err != nil {
		t.Skip("NOT TESTED: FUSE cannot be mounted here: ", err)
	}
	s, done := NewServer(fd, x, files, Options{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve()
	}()
	t.Cleanup(func() {
		if err := Unmount(folder); err != nil {
			t.Error(err)
		}
		<-done
	})
	return s, folder
}

// SIGKILL ends processes whose reads hang, also more of them than there are loops, and meanwhile the file system has names.
func TestKilledReaderDoesNotHang(t *testing.T) {
	t.Parallel()
	x := open(t, mounttest.Pack(t, mounttest.Files{"large": strings.Repeat("x", 8<<20), "other/a": strings.Repeat("y", 100_000)}))
	source := make(hanging)
	folder := mountTest(t, x, source)
	t.Cleanup(func() { close(source) }) // before the mount is unmounted
	var readers []*exec.Cmd
	for i := range 2 * maxLoops {
		from := 16 * i
		cmd := exec.CommandContext(context.Background(), "dd", "if="+filepath.Join(folder, "large"), "of=/dev/null", "bs=4096", "count=1", "skip="+strconv.Itoa(from))
		if i%2 == 0 {
			cmd.Args = append(cmd.Args, "iflag=direct")
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		readers = append(readers, cmd)
	}
	looked := make(chan error, 1)
	go func() {
		_, err := os.Stat(filepath.Join(folder, "other", "a"))
		looked <- err
	}()
	if err := within(t, looked, "looking up a name"); err != nil {
		t.Error(err)
	}
	for _, cmd := range readers {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
	}
	for _, cmd := range readers {
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		_ = within(t, ended, "the end of a killed process")
	}
}

func within(t *testing.T, c <-chan error, what string) error {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	select {
	case err := <-c:
		return err
	case <-ctx.Done():
		t.Fatal(what + " hangs")
	}
	return nil
}
