package builder

import "time"

// Hasten makes a worker do everything sooner.
func (w *Worker) Hasten(ackWait time.Duration) {
	w.pace = pace{
		ackWait: ackWait, heartbeat: ackWait / 4, presence: 100 * time.Millisecond,
		look: 20 * time.Millisecond, retry: 20 * time.Millisecond, logs: time.Minute,
	}
}
