package exec

import (
	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/tiering"
)

const (
	// Streamed rows are multiplied in slices: of sliceLeast bytes, or more if more
	// has landed, up to sliceMost. Small slices begin early, large ones need fewer
	// meetings of the threads, of whom one may have lost its core meanwhile. With
	// many tokens a slice is at work for long, and may have up to sliceMany. Of a small
	// ring one part in sliceFraction is enough to begin, and half of it is taken at most,
	// but for sliceLeast: the rest is filled meanwhile.
	sliceLeast    = 1 << 20
	sliceMost     = 4 << 20
	sliceMany     = 16 << 20
	sliceFraction = 8
)

// streamUser is the model as a stream sees it: something that runs parts on the
// threads that it has by then.
func (m *Model) streamUser() prefetch.Threads {
	return prefetch.Threads{
		Readers: tiering.StreamReads, ReserveReaders: threadpool.ReserveForReaders,
		RunParts: func(parts int, part func(part, worker int)) { m.workers.Run(parts, part) },
	}
}

// StreamStats returns what was read of the weights that are not in memory, and
// how long the arithmetic waited for them.
func (m *Model) StreamStats() prefetch.StreamStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.stream(); s != nil {
		return s.Stats(prefetch.Weights)
	}
	return prefetch.StreamStats{}
}

// stream returns what brings the weights that are not in memory, nil if all are.
// The model is locked.
func (m *Model) stream() *prefetch.Stream {
	if m.residency == nil {
		return nil
	}
	return m.residency.Stream
}

// runStreamed does a product with the rows that are not in memory, as they
// arrive, and with each of them a share of those that are and were left for it.
func (q *matmulQueue) runStreamed(j *matmul) {
	rest := &j.w.Rest
	run, begin := q.m.residency.Place(rest.Run, rest.Offset)
	if rest.Run == len(q.m.Spec.Layers) {
		run += q.headReads
	}
	unitRows, unit := j.w.Unit()
	least, most := q.streamSlice()
	left := q.deferResident(j)
	for row := j.w.Held(); row < j.w.Rows && !q.failed(); row = j.hi {
		off := begin + int64((row-j.w.Held())/unitRows)*int64(unit)
		bytes := (j.w.Rows - row + unitRows - 1) / unitRows * unit
		j.data, q.err = q.m.residency.Stream.Take(q.ctx, run, off, unit, min(least, bytes), min(most, bytes))
		if q.err != nil {
			break
		}
		j.lo, j.hi = row, min(row+len(j.data)/unit*unitRows, j.w.Rows)
		if left != nil {
			left.lo, left.hi = left.hi, j.w.Held()
			if j.hi < j.w.Rows {
				left.hi = int(float64(left.hi)*float64(j.hi-j.w.Held())/float64(j.w.Rows-j.w.Held())) / unitRows * unitRows
			}
			left.data = j.w.Data[left.lo/unitRows*unit:]
		}
		q.runNext()
	}
	j.lo, j.hi = 0, 0
	if left != nil {
		q.matmuls = q.matmuls[:1]
	}
}

// defersResident reports whether rows of a job that are in memory are left until the others
// arrive. Those of the output matrix are so many that flash would be done with
// everything there is room for long before they are multiplied.
func (q *matmulQueue) defersResident(j *matmul) bool {
	rest := &j.w.Rest
	return rest.Count > 0 && rest.Run == len(q.m.Spec.Layers) && j.w.Offload == nil && !q.outliers.wanted()
}

// deferResident puts rows that are left on the list, as a job of their own, or returns nil.
func (q *matmulQueue) deferResident(j *matmul) *matmul {
	if !q.defersResident(j) {
		return nil
	}
	q.matmuls = append(q.matmuls, *j) // alone on the list, which has room
	return &q.matmuls[1]
}

// streamSlice returns how many bytes of streamed rows are multiplied at once at least, if
// so many are left, and at most.
func (q *matmulQueue) streamSlice() (least, most int) {
	ring := q.m.residency.Cut
	size := ring.Slots * ring.Piece
	most = sliceMost
	if q.n > upRows {
		most = sliceMany
	}
	return min(sliceLeast, size/sliceFraction), min(most, max(sliceLeast, size/2))
}
