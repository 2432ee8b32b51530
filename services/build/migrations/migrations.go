// Package migrations contains the schema of the tables build_*, as consecutive changes.
package migrations

import (
	"embed"
	"io/fs"
)

//go:embed *.sql
var files embed.FS

// FS returns the files for sqldb.DB.Migrate.
func FS() fs.FS { return files }
