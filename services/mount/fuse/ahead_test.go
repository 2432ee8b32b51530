package fuse

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/mount/erofs"
	"slipway.dev/services/mount/mounttest"
)

// ReadLocal makes a blob one of this machine.
func (b blob) ReadLocal(device int, p []byte, off int64) bool { return b.ReadAt(device, p, off) == nil }

// contents returns the content of a package: each file begins a block.
func contents(files mounttest.Files) blob {
	var out blob
	for _, name := range slices.Sorted(maps.Keys(files)) {
		out = append(out, files[name]...)
		out = append(out, make([]byte, -len(out)&(erofs.BlockSize-1))...)
	}
	return out
}

// command returns the output of another process in a folder. A Go process that opens a file that it serves can hang: it adds the file to its epoll
// instance, for which the kernel sends POLL, and all threads wait meanwhile.
func command(t *testing.T, folder string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/usr/bin/env", append([]string{"-C", folder}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(args, err)
	}
	return string(out)
}

func TestRunsOfReads(t *testing.T) {
	t.Parallel()
	const block = 4096
	a := ahead{local: blob{}, jobs: make(chan job, 10), runs: map[int]*run{}}
	jobs := func() (all []job) {
		for len(a.jobs) > 0 {
			all = append(all, <-a.jobs)
		}
		return all
	}
	for i := range int64(minRun - 1) {
		a.note(0, i*2*block, block+1)
		a.note(1, i*7*block, block)
	}
	if all := jobs(); len(all) > 0 {
		t.Errorf("files are sent after %d reads: %v", minRun-1, all)
	}
	a.note(0, (minRun-1)*2*block, 2*block)
	want := job{0, minRun * 2 * block, minRun}
	if all := jobs(); len(all) != 1 || all[0] != want {
		t.Errorf("%v instead of %v", all, want)
	}
	a.sent(0, want.at, want.at+5*block, 5)
	a.note(0, want.at+5*block, block)
	if all := jobs(); len(all) != 1 || all[0] != (job{0, want.at + 6*block, minRun + 6}) {
		t.Errorf("after those that were sent: %v", all)
	}
	a.sent(0, want.at+6*block, want.at+6*block, 0)
	a.note(0, want.at+6*block, block)
	a.note(0, 0, block)
	a.note(0, block, maxRead+1)
	if all := jobs(); len(all) > 0 {
		t.Errorf("after a failure and other reads: %v", all)
	}
}

// Files that were sent are read without messages.
func TestSentFilesNeedNoMessages(t *testing.T) {
	t.Parallel()
	files := mounttest.Files{}
	for i := range 20 {
		files[fmt.Sprintf("a/%02d", i)] = strings.Repeat(string(rune('a'+i)), 1+i*2000)
	}
	files["b/known"], files["large"] = "known", strings.Repeat("x", maxRead+1)
	s, folder := mountServer(t, open(t, mounttest.Pack(t, files)), contents(files))
	if list := command(t, folder, "ls", "a"); strings.Count(list, "\n") != 20 {
		t.Fatal(list)
	}
	sent := 0
	for _, f := range s.smallFiles() {
		if s.store(f, make([]byte, outHeader+storeSize+maxRead)) {
			sent++
		}
	}
	if sent != 20 {
		t.Errorf("%d files were sent instead of those that the kernel knows", sent)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if got := command(t, folder, "cat", name); got != files[name] {
			t.Errorf("%s: %d bytes", name, len(got))
		}
		if n := s.Messages()["read"]; strings.HasPrefix(name, "a/") && n > 0 {
			t.Errorf("%d reads", n)
		}
	}
}

// An index whose directories contain each other ends the search for small files, too.
func TestDirectoriesInCircles(t *testing.T) {
	t.Parallel()
	raw := mounttest.Index(t, mounttest.Pack(t, mounttest.Files{"x/a": "a", "y/b": "b"}))
	x, err := erofs.Open(raw)
	if err != nil {
		t.Fatal(err)
	}
	second, ok := x.Lookup(x.Root(), "y")
	at := bytes.Index(raw[1024:], binary.LittleEndian.AppendUint64(nil, second))
	if !ok || at < 0 {
		t.Fatal("the name is not found")
	}
	binary.LittleEndian.PutUint64(raw[1024+at:], x.Root())
	if again, ok := x.Lookup(x.Root(), "y"); !ok || again != x.Root() {
		t.Fatalf("y is %d", again)
	}
	if files := (&Server{index: x}).smallFiles(); len(files) != 1 {
		t.Errorf("the files are %v", files)
	}
}

// A command that reads all files in their order gets their contents.
func TestReadingAllFiles(t *testing.T) {
	t.Parallel()
	files := mounttest.Files{}
	for i := range 300 {
		files[fmt.Sprintf("%03d", i)] = strings.Repeat(fmt.Sprint(i), 1+i*20)
	}
	_, folder := mountServer(t, open(t, mounttest.Pack(t, files)), contents(files))
	var want strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		want.WriteString(files[name])
	}
	if got := command(t, folder, "sh", "-c", "cat *"); got != want.String() {
		t.Errorf("%d bytes instead of %d, or others", len(got), want.Len())
	}
}
