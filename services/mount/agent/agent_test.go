package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestErrorsOfEachCommand(t *testing.T) {
	t.Parallel()
	var e Errors
	e.Add(errors.New("a"))
	_, number := e.Since(0)
	if list, _ := e.Since(number); len(list) != 0 {
		t.Errorf("errors of an earlier command: %v", list)
	}
	e.Add(errors.New("b"))
	e.Add(errors.New("a")) // again
	if list, _ := e.Since(number); !slices.Equal(list, []string{"b", "a"}) {
		t.Errorf("errors: %v", list)
	}
	for i := range 10 * maxErrors {
		e.Add(fmt.Errorf("error %d", i))
	}
	list, _ := e.Since(number)
	if len(list) != maxErrors || list[maxErrors-1] != fmt.Sprintf("error %d", 10*maxErrors-1) {
		t.Errorf("the last errors: %v", list)
	}
}

func TestGroupsOfJobs(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		groups string
		inJob  bool
		want   string
	}{
		{"0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_3\n", false, ":/system.slice/slurmstepd.scope/job_7/step_0"},
		{"0::/system.slice/slurmstepd.scope/job_7/step_extern/user/task_special\n", false, ":/system.slice/slurmstepd.scope/job_7/step_extern"},
		{"0::/user.slice/user-1000.slice/session-4.scope\n", false, ""},
		{"0::/system.slice/pipeline.service\n", false, ":/system.slice/pipeline.service"},
		{"0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_3\n", true, ""},
		{"", false, ""},
	} {
		if got := jobGroup(one.groups, one.inJob); got != one.want {
			t.Errorf("%q: %q, not %q", one.groups, got, one.want)
		}
	}
}

func listen(t *testing.T, socket string) *Server {
	t.Helper()
	s := &Server{Folder: "/", Idle: 0, Status: func() Status { return Status{} }, Errors: &Errors{}, Image: func(string) {}}
	if err := s.Listen(socket); err != nil {
		t.Fatal(err)
	}
	return s
}

// An agent that ends does not remove the socket of the one that has replaced it.
func TestSocketOfAnotherAgent(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "socket")
	first := listen(t, socket)
	second := listen(t, socket)
	_ = first.listen.Close()
	first.removeSocket()
	if _, err := os.Lstat(socket); err != nil {
		t.Error("the socket of the second agent was removed:", err)
	}
	_ = second.listen.Close()
	second.removeSocket()
	if _, err := os.Lstat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Error("the socket was not removed:", err)
	}
}

// --idle 0 ends the agent after its first client, not before.
func TestIdleBeforeTheFirstClient(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: only root can clone a mount here")
	}
	socket := filepath.Join(t.TempDir(), "socket")
	s := listen(t, socket)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Serve()
	}()
	c, err := Dial(socket, "")
	if err != nil {
		t.Fatal(err)
	}
	s.Errors.Add(errors.New("a"))
	before, err := c.Status()
	if err != nil || !slices.Equal(before.Errors, []string{"a"}) {
		t.Errorf("%+v, %v", before, err)
	}
	s.Errors.Add(errors.New("a"))
	after, err := c.Status()
	if err != nil || !slices.Equal(after.Errors, []string{"a", "a"}) {
		t.Errorf("%+v, %v", after, err)
	}
	if err := errors.Join(c.Tree.Close(), c.Close()); err != nil {
		t.Error(err)
	}
	<-ended
	if _, err := Dial(socket, ""); !errors.Is(err, ErrNone) {
		t.Errorf("after the end: %v", err)
	}
}

// An agent that does not answer is not replaced.
func TestOnlyMissingAgentsAreStarted(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "socket")
	s := listen(t, socket)
	go func() {
		conn, err := s.listen.AcceptUnix()
		if err == nil {
			_, _ = conn.Write([]byte{0})
			_ = conn.Close()
		}
	}()
	started := false
	_, err := DialOrStart(socket, "", func() error { started = true; return nil })
	if started || !errors.Is(err, ErrBusy) {
		t.Errorf("started %v, %v", started, err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(socket), "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(filepath.Join(filepath.Dir(socket), "file", "x"), ""); err == nil || errors.Is(err, ErrNone) {
		t.Errorf("a socket that cannot be reached: %v", err)
	}
}

func TestSweepLeavesLocksInUse(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	const name, old = "0123456789abcdef01234567", "765432100123456789abcdef"
	long := time.Now().Add(-2 * sweepAge)
	for _, n := range []string{name, old} {
		path := filepath.Join(folder, n+".lock")
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, long, long)); err != nil {
			t.Fatal(err)
		}
	}
	unlock, err := lock(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	Sweep(folder, time.Now())
	if _, err := os.Stat(filepath.Join(folder, name+".lock")); err != nil {
		t.Error("the lock in use:", err)
	}
	if _, err := os.Stat(filepath.Join(folder, old+".lock")); !errors.Is(err, os.ErrNotExist) {
		t.Error("the old lock:", err)
	}
}

// A lock that was deleted while it was waited for protects nothing.
func TestDeletedLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if err := unix.Unlink(path); err != nil {
		t.Fatal(err)
	}
	if current, err := lockFile(f, path); current || err != nil {
		t.Error(current, err)
	}
}
