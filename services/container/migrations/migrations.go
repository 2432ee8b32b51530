// Package migrations contains the schema of all tables container_* as ordered migrations.
package migrations

import (
	"embed"
	"io/fs"
)

//go:embed *.sql
var files embed.FS

// FS returns the files for sqldb.DB.Migrate.
func FS() fs.FS { return files }
