package embedded

import (
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"slipway.dev/services/internal/disk"
)

const (
	// maxStore is the limit of all streams in bytes. The streams have limits of their own.
	maxStore = 1 << 40
	// spaceToReopen is the free space in bytes from which streams are opened again.
	spaceToReopen = 8 << 20
	// reopenPeriod is the interval between measurements of the free space after a failed write.
	reopenPeriod = time.Second
)

// writeFailures is a server.Logger that detects failed writes to the disk. After a failed
// write, a stream rejects every message until it is opened again, even if the disk has space.
// The server reports the failure only in its log.
type writeFailures struct {
	// happened receives a value after a failed write. Its capacity is 1.
	happened chan struct{}
}

// Errorf implements server.Logger.
func (w *writeFailures) Errorf(format string, _ ...any) {
	if !strings.Contains(format, "Critical write error") && !strings.Contains(format, "will be DISABLED") {
		return
	}
	select {
	case w.happened <- struct{}{}:
	default:
	}
}

// Noticef implements server.Logger.
func (*writeFailures) Noticef(string, ...any) {}

// Warnf implements server.Logger.
func (*writeFailures) Warnf(string, ...any) {}

// Fatalf implements server.Logger.
func (*writeFailures) Fatalf(string, ...any) {}

// Debugf implements server.Logger.
func (*writeFailures) Debugf(string, ...any) {}

// Tracef implements server.Logger.
func (*writeFailures) Tracef(string, ...any) {}

// reopen opens the streams in the folder store again after a failed write, when the disk has
// space. It returns when the server is shut down.
func reopen(s *server.Server, store string, failed <-chan struct{}, log *slog.Logger) {
	down := make(chan struct{})
	go func() { s.WaitForShutdown(); close(down) }()
	tick := time.NewTicker(reopenPeriod)
	defer tick.Stop()
	broken, problem := false, ""
	for {
		select {
		case <-down:
			return
		case <-failed:
			if !broken {
				log.Warn("The embedded NATS cannot write to its disk; it continues when there is space", "dir", store)
			}
			broken = true
			continue
		case <-tick.C:
		}
		if !broken {
			continue
		}
		if space, err := disk.Of(store); err != nil || space.Free < spaceToReopen {
			continue
		}
		err := s.ShutdownJetStream()
		if err == nil {
			err = s.EnableJetStream(&server.JetStreamConfig{StoreDir: store, MaxStore: maxStore})
		}
		if err != nil {
			if now := err.Error(); now != problem { // logged once, although it is tried every second
				log.Warn("The embedded NATS could not open its streams again", "err", err)
				problem = now
			}
			continue
		}
		broken, problem = false, ""
		log.Info("The embedded NATS continues, because its disk has space")
	}
}
