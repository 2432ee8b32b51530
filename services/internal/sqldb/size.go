package sqldb

import (
	"context"
	"errors"
	"io/fs"
	"os"
)

// Size returns the size of the database on disk in bytes: that of PostgreSQL's database, without
// its write-ahead log, or that of the SQLite file with its write-ahead log.
func (db *DB) Size(ctx context.Context) (size int64, err error) {
	if !db.IsSQLite() {
		err := db.QueryRowContext(ctx, `SELECT pg_database_size(current_database())`).Scan(&size)
		return size, db.Wrap(err)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(db.path + suffix)
		switch {
		case err == nil:
			size += info.Size()
		case suffix == "" || !errors.Is(err, fs.ErrNotExist): // SQLite deletes the others when it closes the file
			return 0, err
		}
	}
	return size, nil
}
