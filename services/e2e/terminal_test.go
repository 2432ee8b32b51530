package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway.dev/services/internal/testkit"
)

// A terminal is a pseudo-terminal that runs a program.
type terminal struct {
	t    testing.TB
	keys *os.File
	cmd  *exec.Cmd
	done chan struct{} // closed when all output was read

	mu    sync.Mutex
	shown bytes.Buffer
}

// inTerminal starts a program in a new terminal.
func inTerminal(t testing.TB, cmd *exec.Cmd) *terminal {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil && testkit.Real() {
		t.Fatal(err)
	}
	if err != nil {
		t.Skipf("there are no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { keys.Close() })
	number, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	screen, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, screen
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, keys: keys, cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(term.done)
		for b := make([]byte, 4096); ; {
			n, err := keys.Read(b)
			term.mu.Lock()
			term.shown.Write(b[:n])
			term.mu.Unlock()
			if err != nil { // the program has closed the terminal
				return
			}
		}
	}()
	return term
}

func (term *terminal) screen() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.shown.String()
}

// answer types a line when the screen ends with a question.
func (term *terminal) answer(question, line string) {
	term.t.Helper()
	err := within(time.Minute, func() error {
		if s := term.screen(); !strings.HasSuffix(s, question) {
			return fmt.Errorf("the screen shows %q, want %q at its end", s, question)
		}
		return nil
	})
	if err != nil {
		term.t.Fatal(err)
	}
	if _, err := term.keys.WriteString(line + "\n"); err != nil {
		term.t.Fatal(err)
	}
}

// end waits for the program, and returns the content of the screen.
func (term *terminal) end() (string, error) {
	err := term.cmd.Wait()
	<-term.done
	return term.screen(), err
}
