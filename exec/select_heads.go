package exec

import (
	"slices"

	"github.com/llmrun/llmrun/tiering"
)

// headPicks lets the query heads of a layer choose blocks in turn: in each round, each head chooses
// the block that it attends to most, of those that are not yet chosen. Heads whose attention is
// spread over many blocks thus get as many as heads that attend to few, in whose favor a ranking by
// the sum over all heads decides. The heads with the highest attention to their best block come
// first in each round; on equal attention, the lower index wins.
//
// A choice looks at the maximum of each group of pickGroup blocks, and then at one group.
type headPicks struct {
	stride, groups int       // of a head's rows in the fields below
	attention      []float32 // [head, stride] attention to the blocks that are not chosen; chosen for others
	greatest       []float32 // [head, groups] maximum of the group's blocks
	hasNaN         []bool    // [head] some blocks have the attention NaN
	order          []int     // [head] heads in the order of a round
	tops           []float32 // [head] attention to the head's best block
}

// pickGroup is the number of blocks in a group.
const pickGroup = 32

// chosen is in the place of the attention to a block that is chosen: less than any attention.
const chosen = -1

// carve takes the buffers for a number of heads, and up to stride blocks.
func (p *headPicks) carve(a *tiering.Arena, heads, stride int) {
	p.stride, p.groups = stride, (stride+pickGroup-1)/pickGroup
	p.attention = a.Floats(heads * p.stride)
	p.greatest = a.Floats(heads * p.groups)
}

// makeLists allocates what is not carved from the arena.
func (p *headPicks) makeLists(heads int) {
	p.hasNaN, p.order, p.tops = make([]bool, heads), make([]int, 0, heads), make([]float32, heads)
}

// row returns a head's attention to n blocks.
func (p *headPicks) row(head, n int) []float32 { return p.attention[head*p.stride:][:n] }

// put sets a head's attention to blocks from their scores, which it overwrites. Several goroutines
// may call it for different heads.
func (p *headPicks) put(head int, scores []float32) {
	row := p.row(head, len(scores))
	clear(row)
	addAttention(row, scores)
	p.hasNaN[head] = p.updateGroups(head, len(row))
}

// updateGroups finds the maxima of a head's groups of n blocks. It reports whether some blocks have
// the attention NaN, which is no maximum.
func (p *headPicks) updateGroups(head, n int) (hasNaN bool) {
	for g := range p.groupsOf(n) {
		p.updateGroup(head, g, n)
	}
	for _, v := range p.row(head, n) {
		if v != v {
			return true
		}
	}
	return false
}

// pick marks need blocks of len(selected), and clears the others. It returns the number of marked
// blocks, which is higher if more blocks are broken.
func (p *headPicks) pick(selected []byte, heads, need int) int {
	clear(selected)
	n := 0
	if slices.Contains(p.hasNaN[:heads], true) {
		n = p.markBroken(selected, heads)
	}
	p.sortHeads(heads, len(selected))
	need = min(need, len(selected))
	for n < need {
		for _, h := range p.order[:min(heads, need-n)] {
			i := p.best(h, len(selected))
			selected[i] = 1
			p.remove(heads, i, len(selected))
			n++
		}
	}
	return n
}

// markBroken marks the blocks with the attention NaN, and returns their number. These are always
// selected, so that their NaN reaches the logits as it does in exact attention.
func (p *headPicks) markBroken(selected []byte, heads int) (n int) {
	for h := range heads {
		for i, v := range p.row(h, len(selected)) {
			if v != v && selected[i] == 0 {
				selected[i] = 1
				n++
			}
		}
	}
	for i, mark := range selected {
		if mark != 0 {
			p.remove(heads, i, len(selected))
		}
	}
	return n
}

// sortHeads puts the heads in the order of their attention to their best block of n.
func (p *headPicks) sortHeads(heads, n int) {
	p.order = p.order[:0]
	for h := range heads {
		p.tops[h] = slices.Max(p.greatest[h*p.groups:][:p.groupsOf(n)])
		at := len(p.order)
		for at > 0 && p.tops[p.order[at-1]] < p.tops[h] {
			at--
		}
		p.order = slices.Insert(p.order, at, h)
	}
}

// groupsOf returns the number of groups of n blocks.
func (p *headPicks) groupsOf(n int) int { return (n + pickGroup - 1) / pickGroup }

// updateGroup finds the maximum of a group of n blocks.
func (p *headPicks) updateGroup(head, group, n int) {
	row, most := p.row(head, n)[group*pickGroup:], float32(chosen)
	for _, v := range row[:min(pickGroup, len(row))] {
		if v > most {
			most = v
		}
	}
	p.greatest[head*p.groups+group] = most
}

// best returns the block of n that a head attends to most, of those that are not chosen.
func (p *headPicks) best(head, n int) int {
	group, most := 0, float32(chosen)
	for g, v := range p.greatest[head*p.groups:][:p.groupsOf(n)] {
		if v > most {
			group, most = g, v
		}
	}
	return group*pickGroup + slices.Index(p.row(head, n)[group*pickGroup:], most)
}

// remove marks a block of n as chosen.
func (p *headPicks) remove(heads, block, n int) {
	for h := range heads {
		v := &p.attention[h*p.stride+block]
		was := *v
		if *v = chosen; was == p.greatest[h*p.groups+block/pickGroup] {
			p.updateGroup(h, block/pickGroup, n)
		}
	}
}
