package conda

import (
	"errors"
	"strings"

	"github.com/goccy/go-yaml/token"

	"slipway.dev/services/internal/limits"
)

var (
	errText    = errors.New("it is not text")
	errDepth   = errors.New("it is nested too deeply")
	errKeys    = errors.New("a mapping in it has too many keys")
	errAliases = errors.New("it must be a mapping, without aliases")
)

// checkText refuses what would cost time to take apart.
func checkText(text string) error {
	if len(text) > limits.CondaFile {
		return errors.New("it is longer than 1 MiB")
	}
	if strings.ContainsRune(text, 0) {
		return errText
	}
	for line := range strings.SplitSeq(text, "\n") {
		if len(line) > limits.YAMLLine {
			return errors.New("a line of it is longer than 2000 characters")
		}
	}
	return nil
}

// checkTokens refuses what would cost time to parse: nesting, keys of one mapping,
// and aliases, a few lines of which stand for gigabytes.
func checkTokens(tokens token.Tokens) error {
	var n nesting
	for i, t := range tokens {
		switch t.Type {
		case token.AliasType:
			return errAliases
		case token.SequenceStartType, token.MappingStartType:
			n.flow++
		case token.SequenceEndType, token.MappingEndType:
			n.flow = max(n.flow-1, 0)
		case token.SequenceEntryType:
			n.enter(t.Position.Column)
		case token.MappingValueType:
			n.key(tokens[max(i-1, 0)].Position.Column)
		case token.MappingKeyType:
			n.key(t.Position.Column)
		case token.CollectEntryType:
			n.key(0)
		default: // costs no more than its length
		}
		if err := n.err(); err != nil {
			return err
		}
	}
	return nil
}

// nesting is where in a file its reader is.
type nesting struct {
	// flow is how many [] and {} are open, and flowKeys how many keys and items they
	// hold, with all that they stand in.
	flow, flowKeys int
	// blocks are the lists and mappings outside of them that are open.
	blocks []block
}

// block is a list, or a mapping: its keys stand in one column.
type block struct{ column, keys int }

// enter says that a key or an item of a block stands in a column: what stands to
// the right of it is over.
func (n *nesting) enter(column int) {
	if n.flow > 0 {
		return
	}
	n.flowKeys = 0
	for len(n.blocks) > 0 && n.blocks[len(n.blocks)-1].column > column {
		n.blocks = n.blocks[:len(n.blocks)-1]
	}
	if len(n.blocks) == 0 || n.blocks[len(n.blocks)-1].column < column {
		n.blocks = append(n.blocks, block{column: column})
	}
}

// key counts one.
func (n *nesting) key(column int) {
	if n.flow > 0 {
		n.flowKeys++
		return
	}
	n.enter(column)
	n.blocks[len(n.blocks)-1].keys++
}

func (n *nesting) err() error {
	switch {
	case n.flow > limits.YAMLDepth, len(n.blocks) > limits.YAMLDepth:
		return errDepth
	case n.flowKeys > 4*limits.YAMLKeys:
		return errKeys
	case len(n.blocks) > 0 && n.blocks[len(n.blocks)-1].keys > limits.YAMLKeys:
		return errKeys
	}
	return nil
}
