// Package migrations holds the schema of the tables metrics_*.
package migrations

import (
	"embed"
	"io/fs"
)

//go:embed *.sql
var files embed.FS

// FS returns the migrations for sqldb.DB.Migrate.
func FS() fs.FS { return files }
