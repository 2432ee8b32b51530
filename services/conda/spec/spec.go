// Package spec defines versions, match specifications, records, channels and virtual packages
// of Conda. It parses, formats and compares them, and identifies the layers of packages.
//
// It does no I/O. The types follow the Conda Enhancement Proposals (CEPs); comments give
// their numbers.
package spec
