package gpupass

import "github.com/llmrun/llmrun/exec"

// After its keys and values the last layer is needed only for rows whose logits are
// wanted: one token of a prompt.

// rowRange is consecutive rows of a chunk.
type rowRange struct{ first, count int }

// rowsNeeded returns the rows of a chunk that a layer computes after its keys and
// values: all, except in the last layer, which computes those from the first to the
// last whose logits are wanted. One range keeps the rows in place.
func (n *Network) rowsNeeded(l int, c *exec.Chunk) rowRange {
	if l < len(n.layers)-1 {
		return rowRange{0, c.Tokens}
	}
	if len(c.Want) == 0 {
		return rowRange{}
	}
	first, last := c.Want[0], c.Want[len(c.Want)-1] // ascending
	return rowRange{first, last - first + 1}
}
