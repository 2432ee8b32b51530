// Package migrations is the schema of all tables metrics_*, which change one after the
// other.
package migrations

import (
	"embed"
	"io/fs"
)

//go:embed *.sql
var files embed.FS

// FS is for sqldb.DB.Migrate.
func FS() fs.FS { return files }
