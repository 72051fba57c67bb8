package opencl

import "fmt"

// vectorShape is how a product with one token is divided.
type vectorShape struct {
	rows  int // of a work-group
	lanes int // work items that share a row
	deep  int // blocks that each has on their way at a time
}

const (
	// fewRows is how many rows a group has at most where each compute unit gets one
	// group and all weights are on their way at once. Rows lie side by side: multiples
	// of four fill 64 bytes.
	fewRows = 16
	rowStep = 4
	// fewThreads is how many work items such a group has at most, and vectorThreads how
	// many a compute unit holds of groups that take several tiles: they need more
	// registers.
	fewThreads    = 896
	groupThreads  = 256
	vectorThreads = 512
	// A work item's loads of 128 bits that are under way: of few rows, of many, and
	// where that spares reading the input again.
	leastLoads, mostLoads, allLoads = 3, 6, 16
	// maxRows is how many rows a group has at most.
	maxRows = 32
)

// shape returns how a product with one token is divided. Work items of a group share
// what is done to the input, so that small groups waste time; but there should be
// one for each compute unit, and all blocks of a row should be under way together.
//
// On a CPU, whose work items are the iterations of a loop, one shape is as good as
// another and takes one build.
func (p *Product) shape() vectorShape {
	info, units := &p.context.Info, p.Format.units()
	if info.Kind == kindNames[kindCPU] {
		return vectorShape{rows: 8, lanes: 16, deep: 1}
	}
	blocks := (p.Cols + blockElems - 1) / blockElems
	if rows := roundUp((p.Rows+info.ComputeUnits-1)/info.ComputeUnits, rowStep); rows <= fewRows {
		s := vectorShape{rows: max(rows, 2*rowStep)}
		threads := min(fewThreads, info.MaxGroup)
		s.deep = max((leastLoads+units-1)/units, (blocks*s.rows+threads-1)/threads)
		s.lanes = min((blocks+s.deep-1)/s.deep, threads/s.rows)
		return p.fit(s)
	}
	s := vectorShape{deep: max(1, mostLoads/units)}
	threads := min(groupThreads, info.MaxGroup)
	s.lanes = min((blocks+s.deep-1)/s.deep, threads/(2*rowStep))
	s.rows = min(maxRows, threads/s.lanes/rowStep*rowStep)
	s.deep = max(s.deep, (blocks+s.lanes-1)/s.lanes) // several tiles of one group share the input
	return p.fit(s)
}

// fit bounds what a work item has under way and what a group has in local memory:
// the rest of a row's blocks come later.
func (p *Product) fit(s vectorShape) vectorShape {
	s.deep = min(s.deep, max(1, allLoads/p.Format.units()))
	for s.deep > 1 && p.localBytes(s) > p.context.Info.LocalMemory {
		s.deep--
	}
	return s
}

// within returns the shape with groups of at most so many work items: fewer share a row
// and take more turns.
func (s vectorShape) within(most int) (vectorShape, error) {
	if most < rowStep {
		return s, fmt.Errorf("opencl: work-groups of %d; products of one token need %d", most, rowStep)
	}
	s.rows = min(s.rows, most/rowStep*rowStep)
	s.lanes = min(s.lanes, most/s.rows)
	return s, nil
}

// localBytes returns what a group has in local memory: blocks of the input, which its
// work items get ready by quarters, and four numbers of each. See kernels/matvec.cl.
func (p *Product) localBytes(s vectorShape) int64 {
	block := 4 * (blockElems + 4)
	if p.Format < Half {
		block = blockElems + 4
	}
	threads := s.rows * s.lanes
	return int64(roundUp(4*s.lanes*s.deep, threads)/4*block + 4*4*threads)
}

// groups returns how many groups share the tiles of a product: as many as the
// device runs at the same time, if there are so many.
func (p *Product) groups(s vectorShape) int {
	return min((p.Rows+s.rows-1)/s.rows, p.context.Info.ComputeUnits*max(1, vectorThreads/(s.rows*s.lanes)))
}

func roundUp(n, step int) int { return (n + step - 1) / step * step }
