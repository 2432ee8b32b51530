// Package migrations holds the schema of all tables platform_*. The tables share one sequence
// of migrations because they reference each other. Each table is written by one subpackage of
// platform, whose package comment lists it.
package migrations

import (
	"embed"
	"io/fs"
)

//go:embed *.sql
var files embed.FS

// FS returns the migrations for sqldb.DB.Migrate.
func FS() fs.FS { return files }
