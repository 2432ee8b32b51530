package upstream

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/services/internal/testkit/bubble"
)

// TestStall verifies that the time for a response starts when the request has been sent.
func TestStall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		c := &stallConn{Conn: ours}
		defer c.Close()
		began := time.Now()
		ended := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 1))
			ended <- err
		}()
		part := make([]byte, 1)
		for range 5 {
			bubble.Elapse(50 * time.Second)
			go func() { _, _ = io.ReadFull(theirs, part) }()
			if _, err := c.Write(part); err != nil {
				t.Fatalf("after %s: %v", time.Since(began), err)
			}
		}
		if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != 5*50*time.Second+stall {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		began = time.Now()
		if _, err := c.Write(part); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != stall {
			t.Errorf("a peer that receives nothing: after %s: %v", time.Since(began), err)
		}
	})
}
