package process

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
	"testing"
)

func TestFleetEndsAllProcesses(t *testing.T) {
	t.Parallel()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip("there is no sleep here")
	}
	f := Fleet{Logs: t.TempDir()}
	ready := func(context.Context) error { return nil }
	s, err := f.Start(t.Context(), Command{Name: "sleep", Path: sleep, Args: []string{"60"}, Ready: ready})
	if err != nil {
		t.Fatal(err)
	}
	_ = s.cpu()
	if mb := s.Memory(); mb <= 0 {
		t.Errorf("memory: %g", mb)
	}
	f.StopAll()
	if err := syscall.Kill(s.cmd.Process.Pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the process still exists: %v", err)
	}
	if _, err := f.Start(t.Context(), Command{Name: "sleep", Path: sleep, Args: []string{"0"}, Ready: s.dead}); err == nil {
		t.Error("a server that ended counts as started")
	}
}

// dead is the Ready function of a server that is never ready.
func (s *Server) dead(context.Context) error { return errors.New("never") }
