// Package docs holds the documentation, so that the program can serve it.
package docs

import "embed"

// Files are the pages in Markdown and their pictures, by their paths below docs/.
//
//go:embed *.md */*.md */*.svg
var Files embed.FS
