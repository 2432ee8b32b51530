// Package migrations is the schema of all tables platform_*. They change one after
// the other, since tables of one noun refer to another's; each table is written by
// the package that its own comment names.
package migrations

import (
	"embed"
	"io/fs"
)

//go:embed *.sql
var files embed.FS

// FS is for sqldb.DB.Migrate.
func FS() fs.FS { return files }
