package markup

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
	ErrAliases = errors.New("it must be a mapping, without aliases")
)

// CheckText rejects text that would take long to tokenize.
func CheckText(text string) error {
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

// checkTokens rejects text that would take long to parse: deep nesting, too many keys in a
// mapping, and aliases, a few lines of which can expand to gigabytes.
func checkTokens(tokens token.Tokens) error {
	var n nesting
	for i, t := range tokens {
		switch t.Type {
		case token.AliasType:
			return ErrAliases
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
		default: // takes time in proportion to its length
		}
		if err := n.err(); err != nil {
			return err
		}
	}
	return nil
}

// A nesting is the current position within nested structures.
type nesting struct {
	// flow is the number of open [] and {}. flowKeys is the number of their keys and items,
	// including enclosing ones.
	flow, flowKeys int
	// blocks lists the open block lists and mappings.
	blocks []block
}

// A block is a list, or a mapping whose keys are all in one column.
type block struct{ column, keys int }

// enter records a key or an item of a block in a column and closes all blocks to the right
// of it.
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

// key counts a key.
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
