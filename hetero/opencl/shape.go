package opencl

import "fmt"

// gemvShape is how a product with one token is divided.
type gemvShape struct {
	rows  int // of a work-group
	lanes int // work items that share a row
	depth int // blocks that each has on their way at a time
}

const (
	// fewRows is how many rows a group has at most where each compute unit gets one
	// group and all weights are on their way at once. Rows lie side by side: multiples
	// of four fill 64 bytes.
	fewRows = 16
	rowStep = 4
	// fewThreads is how many work items such a group has at most, and unitThreads how
	// many a compute unit holds of groups that take several tiles: they need more
	// registers.
	fewThreads   = 896
	groupThreads = 256
	unitThreads  = 512
	// A work item's loads of 128 bits that are under way: of few rows, of many, and
	// where that spares reading the input again.
	loadsFewRows, loadsManyRows, maxLoads = 3, 6, 16
	// maxRows is how many rows a group has at most.
	maxRows = 32
)

// shape returns how a product with one token is divided. Work items of a group share
// what is done to the input, so that small groups waste time; but there should be
// one for each compute unit, and all blocks of a row should be under way together.
//
// On a CPU, whose work items are the iterations of a loop, one shape is as good as
// another and takes one build.
func (p *WeightMatrix) shape() gemvShape {
	info, units := &p.context.Info, p.Format.units()
	if info.Kind == kindNames[kindCPU] {
		return gemvShape{rows: 8, lanes: 16, depth: 1}
	}
	blocks := (p.Cols + blockElems - 1) / blockElems
	if rows := roundUp((p.Rows+info.ComputeUnits-1)/info.ComputeUnits, rowStep); rows <= fewRows {
		s := gemvShape{rows: max(rows, 2*rowStep)}
		threads := min(fewThreads, info.MaxGroup)
		s.depth = max((loadsFewRows+units-1)/units, (blocks*s.rows+threads-1)/threads)
		s.lanes = min((blocks+s.depth-1)/s.depth, threads/s.rows)
		return p.limitDepth(s)
	}
	s := gemvShape{depth: max(1, loadsManyRows/units)}
	threads := min(groupThreads, info.MaxGroup)
	s.lanes = min((blocks+s.depth-1)/s.depth, threads/(2*rowStep))
	s.rows = min(maxRows, threads/s.lanes/rowStep*rowStep)
	s.depth = max(s.depth, (blocks+s.lanes-1)/s.lanes) // several tiles of one group share the input
	return p.limitDepth(s)
}

// limitDepth bounds what a work item has under way and what a group has in local memory:
// the rest of a row's blocks come later.
func (p *WeightMatrix) limitDepth(s gemvShape) gemvShape {
	s.depth = min(s.depth, max(1, maxLoads/p.Format.units()))
	for s.depth > 1 && p.localBytes(s) > p.context.Info.LocalMemory {
		s.depth--
	}
	return s
}

// limitGroup returns the shape with groups of at most so many work items: fewer share a row
// and take more turns.
func (s gemvShape) limitGroup(most int) (gemvShape, error) {
	if most < rowStep {
		return s, fmt.Errorf("opencl: work-groups of %d; products of one token need %d", most, rowStep)
	}
	s.rows = min(s.rows, most/rowStep*rowStep)
	s.lanes = min(s.lanes, most/s.rows)
	return s, nil
}

// localBytes returns what a group has in local memory: blocks of the input, which its
// work items get ready by quarters, and four numbers of each. See kernels/matvec.cl.
func (p *WeightMatrix) localBytes(s gemvShape) int64 {
	block := 4 * (blockElems + 4)
	if p.Format < Half {
		block = blockElems + 4
	}
	threads := s.rows * s.lanes
	return int64(roundUp(4*s.lanes*s.depth, threads)/4*block + 4*4*threads)
}

// groups returns how many groups share the tiles of a product: as many as the
// device runs at the same time, if there are so many.
func (p *WeightMatrix) groups(s gemvShape) int {
	return min((p.Rows+s.rows-1)/s.rows, p.context.Info.ComputeUnits*max(1, unitThreads/(s.rows*s.lanes)))
}

func roundUp(n, step int) int { return (n + step - 1) / step * step }
