// Package transfer moves the data of a slipwayd that ran as one process, with SQLite and the
// embedded image store, to the database, the registry and the keys that several processes
// share. It changes nothing in the source, and finally marks it as moved. Rows are copied in one transaction and compared with the
// source before the commit; images are copied by digest.
package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"slipway.dev/services/app"
	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/sqldb"
)

// Options describe a transfer.
type Options struct {
	// Config holds the settings of the target: database_url, and build_repository with its
	// login in registry_auth_file for images.
	Config config.Config
	// From is the SQLite database of the source, in its data_dir.
	From string
	// Images selects whether the embedded image store is copied to build_repository. Names of
	// images that are not copied can no longer be pulled.
	Images bool
	// Progress receives a line for each step.
	Progress io.Writer
}

// Run transfers everything. It fails before it writes anything if the source is in use or of
// another version, or if the target's tables have rows. After an error it can be run again.
func Run(ctx context.Context, o Options) (err error) {
	if o.Config.DatabaseURL == "" {
		return errors.New("the target is not set: set database_url to the PostgreSQL database to copy to")
	}
	dir := filepath.Dir(o.From)
	unlock, err := lock(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	from, err := openSource(ctx, o.From)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if err := copyMasterKey(o, dir); err != nil {
		return err
	}
	if err := copySigningKey(o, dir); err != nil {
		return err
	}
	if err := app.Migrate(ctx, o.Config); err != nil {
		return err
	}
	to, err := sqldb.Open(ctx, o.Config.DatabaseURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if has, err := to.HasRows(ctx, "platform_users"); err != nil || has {
		return errors.Join(err, notEmpty(has))
	}
	move := mover(o.Config)
	if o.Images && move != nil {
		if err := copyImages(ctx, o, dir, *move); err != nil {
			return err
		}
	}
	var services []string
	for _, s := range app.Schemas() {
		services = append(services, s.Service)
	}
	copied, err := sqldb.Copy(ctx, from, to, services, move.rewrite)
	if err != nil {
		return err
	}
	var rows int64
	for _, c := range copied {
		rows += c.Rows
	}
	fmt.Fprintf(o.Progress, "Copied and compared %d rows of %d tables\n", rows, len(copied))
	if err := app.MarkMoved(dir); err != nil {
		return fmt.Errorf("everything was copied, but %s is not marked as moved, so move it away: %w", dir, err)
	}
	return nil
}

func notEmpty(has bool) error {
	if !has {
		return nil
	}
	return errors.New("the target database has users already: a slipwayd was started with it. Copy into a new database, and set database_url to it")
}

// openSource opens the source and checks that its tables are current.
func openSource(ctx context.Context, path string) (*sqldb.DB, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("no database at %s: give the path of slipway.db in the data_dir of the slipwayd to copy", path)
	}
	db, err := sqldb.Open(ctx, "sqlite:"+path)
	if err != nil {
		return nil, err
	}
	for _, s := range app.Schemas() {
		if err := db.Check(ctx, s.Service, s.Migrations); err != nil {
			return nil, errors.Join(fmt.Errorf("%s is of an older version: start this version of slipwayd once with its data_dir, stop it, and run this again (%w)", path, err), db.Close())
		}
	}
	return db, nil
}

// lock locks a data_dir, so that no slipwayd writes to it meanwhile.
func lock(dir string) (unlock func() error, err error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		return func() error { return nil }, nil
	}
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("a slipwayd uses %s: stop it first, since what it writes from now on would be lost", dir), f.Close())
	}
	// Closing alone would leave it locked while a child process is being started, which has the
	// descriptor until then.
	return func() error { return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close()) }, nil
}

// copySigningKey copies the key that signs images to where the target looks for it, so that the
// public key that users trust remains valid.
func copySigningKey(o Options, dir string) error {
	source, target := filepath.Join(dir, "signing-key"), app.SigningKeyFile(o.Config)
	want, err := os.ReadFile(source)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the source had signing_key_file, which the target needs, too
	}
	if err != nil {
		return fmt.Errorf("reading the key that signs images: %w", err)
	}
	there, err := os.ReadFile(target)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
			return fmt.Errorf("signing_key_file: %w", err)
		}
		if err := os.WriteFile(target, want, 0o600); err != nil {
			return fmt.Errorf("signing_key_file: %w", err)
		}
		fmt.Fprintf(o.Progress, "Copied the key that signs images to %s: set signing_key_file of the role container to a copy of it\n", target)
	case err != nil:
		return fmt.Errorf("signing_key_file: %w", err)
	case !bytes.Equal(there, want):
		fmt.Fprintf(o.Progress, "%s has another key than %s: add the earlier public key to signing_retired_keys\n", target, source)
	}
	return nil
}

// copyMasterKey copies the master key of the source to where the target looks for it. The
// credentials in the database can only be decrypted with it.
func copyMasterKey(o Options, dir string) error {
	source, target := filepath.Join(dir, "master-key"), app.MasterKeyFile(o.Config)
	want, err := os.ReadFile(source)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the source had master_key_file, which the target needs, too
	}
	if err != nil {
		return fmt.Errorf("reading the master key: %w", err)
	}
	there, err := os.ReadFile(target)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
			return fmt.Errorf("master_key_file: %w", err)
		}
		if err := os.WriteFile(target, want, 0o600); err != nil {
			return fmt.Errorf("master_key_file: %w", err)
		}
		fmt.Fprintf(o.Progress, "Copied the master key to %s\n", target)
		return nil
	case err != nil:
		return fmt.Errorf("master_key_file: %w", err)
	case !includes(string(there), string(want)):
		return fmt.Errorf("%s does not hold the keys of %s, with which the credentials are encrypted: add its lines", target, source)
	}
	return nil
}

// includes reports whether a key file holds every key of another one.
func includes(file, other string) bool {
	lines := map[string]bool{}
	for line := range strings.Lines(file) {
		lines[strings.TrimSpace(line)] = true
	}
	for line := range strings.Lines(other) {
		if !lines[strings.TrimSpace(line)] {
			return false
		}
	}
	return true
}
