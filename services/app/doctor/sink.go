package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"slipway.dev/services/app"
	"slipway.dev/services/internal/sink"
)

// lossShown is for how long lost events are reported.
const lossShown = 7 * 24 * time.Hour

// auditSink checks that audit_sink can be written, and that no event waits for it.
func (d *doctor) auditSink(ctx context.Context) []Finding {
	const check = "audit_sink"
	if d.Config.AuditSink == "" {
		return nil
	}
	target, err := sink.Parse(d.Config.AuditSink)
	if err != nil {
		return nil // settings reports it
	}
	if filepath.IsAbs(target.String()) {
		err = d.serverUser().mayAppend(target.String())
	} else {
		err = sink.Reach(ctx, target)
	}
	if err != nil {
		return one(check, "", fmt.Errorf("the process with the role platform cannot write audit events: %w", err), Fail, d.sinkFix())
	}
	if path, ok := d.sqliteFile(); ok {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return one(check, "it can be written", nil, OK, "")
		}
	}
	state, err := app.AuditSinkState(ctx, d.Config)
	if err != nil {
		return one(check, "", fmt.Errorf("it can be written, but whether events wait for it is unknown: %w", err), Warn, "see the check database")
	}
	if err := state.Err(d.Now()); err != nil {
		return one(check, "", err, Fail, "check that a process with the role platform and audit_sink runs, and read its log. "+d.sinkFix())
	}
	if state.Lost > 0 && d.Now().Sub(state.LostAt) < lossShown {
		return one(check, "", fmt.Errorf("it can be written, but %d events were deleted before it accepted them, the last ones before %s", state.Lost, state.LostAt.UTC().Format(time.RFC3339)),
			Warn, "raise audit_retention, and watch the alert SlipwayAuditSinkLate; if nothing failed, run `slipwayd audit verify`, because the events may have been deleted manually")
	}
	return one(check, fmt.Sprintf("it can be written, and %d events wait", state.Waiting), nil, OK, "")
}

// sinkFix returns what to do if audit_sink cannot be written.
func (d *doctor) sinkFix() string {
	if strings.HasPrefix(d.Config.AuditSink, "syslog") {
		return "let the receiver listen there, from this machine, with octet counting, and close connections that the sender ends; for syslog+tls trust its authority (SSL_CERT_FILE)"
	}
	return "create the folder, give it to the user of that process (chown), and free space on its disk; slipwayd.service can only write to its own folders and those of ReadWritePaths= in a drop-in"
}

// mayAppend returns an error if the user can neither append to a file nor create it.
func (a account) mayAppend(path string) error {
	info, err := os.Lstat(path)
	isNew := errors.Is(err, fs.ErrNotExist)
	switch {
	case err != nil && !isNew:
		return err
	case !isNew && !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return err
	}
	at, access, right := path, uint32(unix.R_OK|unix.W_OK), fs.FileMode(0o6)
	if isNew {
		at, access, right = folder, unix.W_OK|unix.X_OK, 0o3
	}
	if a.name == "" {
		err = unix.Access(at, access)
	} else {
		err = errors.Join(a.has(at, right), a.mayEnter(folder))
	}
	if err != nil {
		return fmt.Errorf("%s cannot write %s: %w", a, at, err)
	}
	return nil
}
