package gpupass

import "github.com/llmrun/llmrun/exec"

// Behind its keys and values the last layer does nothing for other tokens: what is
// left of it is needed where logits are asked for. Of a prompt that is one token.

// rowRange is neighbouring rows of a chunk.
type rowRange struct{ first, count int }

// rowsNeeded returns the rows of a chunk that go on behind the keys and values of a
// layer: of the last one those from the first to the last whose logits are wanted,
// so that no row has to move.
func (n *Network) rowsNeeded(l int, c *exec.Chunk) rowRange {
	if l < len(n.layers)-1 {
		return rowRange{0, c.Tokens}
	}
	if len(c.Want) == 0 {
		return rowRange{}
	}
	first, last := c.Want[0], c.Want[len(c.Want)-1] // they are ascending
	return rowRange{first, last - first + 1}
}
