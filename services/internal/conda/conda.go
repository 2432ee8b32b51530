// Package conda defines the types of Conda: versions, match specifications, records,
// virtual packages, environments and locks. It parses, formats and compares them.
//
// It does no I/O. The types follow the Conda Enhancement Proposals (CEPs); comments give
// their numbers.
package conda
