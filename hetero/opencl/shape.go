package opencl

import "fmt"

// gemvShape is the work partition of a GEMV.
type gemvShape struct {
	rows  int // per work-group
	lanes int // work items per row
	depth int // blocks that each work item loads at a time
}

const (
	// A matrix with at most fewRows rows per compute unit gets one group per compute
	// unit, which loads all weights at once. rowStep adjacent rows have units of 64
	// bytes together.
	fewRows = 16
	rowStep = 4
	// fewThreads is the largest size of such a group. unitThreads is the number of
	// work items that a compute unit holds if its groups process several tiles,
	// which takes more registers.
	fewThreads   = 896
	groupThreads = 256
	unitThreads  = 512
	// The outstanding 128-bit loads of a work item: with few rows, with many rows,
	// and the maximum if more loads avoid a second read of the input.
	loadsFewRows, loadsManyRows, maxLoads = 3, 6, 16
	// maxRows is the largest number of rows per group.
	maxRows = 32
)

// shape returns the work partition of a GEMV. Every group computes the input operation
// for itself, so small groups waste time. However, each compute unit should have a
// group, and all blocks of a row should be loaded at the same time.
//
// On a CPU, where work items are loop iterations, all shapes are equally fast, and
// one fixed shape saves builds.
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

// limitDepth bounds the outstanding loads of a work item and the local memory of a
// group. The rest of a row's blocks are loaded later.
func (p *WeightMatrix) limitDepth(s gemvShape) gemvShape {
	s.depth = min(s.depth, max(1, maxLoads/p.Format.units()))
	for s.depth > 1 && p.localBytes(s) > p.context.Info.LocalMemory {
		s.depth--
	}
	return s
}

// limitGroup returns the shape with groups of at most most work items: fewer
// share a row and loop more often.
func (s gemvShape) limitGroup(most int) (gemvShape, error) {
	if most < rowStep {
		return s, fmt.Errorf("opencl: work-groups are limited to %d work items; GEMV needs %d", most, rowStep)
	}
	s.rows = min(s.rows, most/rowStep*rowStep)
	s.lanes = min(s.lanes, most/s.rows)
	return s, nil
}

// localBytes returns the local memory of a group: blocks of the input, prepared in
// quarters by its work items, and four numbers per work item. See
// kernels/matvec.cl.
func (p *WeightMatrix) localBytes(s gemvShape) int64 {
	block := 4 * (blockElems + 4)
	if p.Format < Half {
		block = blockElems + 4
	}
	threads := s.rows * s.lanes
	return int64(roundUp(4*s.lanes*s.depth, threads)/4*block + 4*4*threads)
}

// groups returns how many groups share the tiles of a matrix: at most as many as
// the device runs at the same time.
func (p *WeightMatrix) groups(s gemvShape) int {
	return min((p.Rows+s.rows-1)/s.rows, p.context.Info.ComputeUnits*max(1, unitThreads/(s.rows*s.lanes)))
}

func roundUp(n, step int) int { return (n + step - 1) / step * step }
