// Package conda holds the nouns of Conda: versions, match specifications,
// records, virtual packages, environments and locks, read, written and compared.
//
// It does no I/O and knows no server. Truth: the Conda Enhancement Proposals
// (CEPs), by number where a type follows one.
package conda
