package exec

import (
	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/tiering"
)

const (
	// Streamed rows are multiplied in slices of at least minSlice bytes and, if more bytes are
	// ready, of up to maxSlice. Small slices start early. Large slices need fewer barriers, at
	// which all threads wait for one that the system has preempted. With many tokens, a byte takes
	// longer to multiply, and a slice may have up to maxSliceBatch bytes. With a small ring,
	// 1/sliceFraction of it is enough to start, and a slice takes at most half of it unless that
	// is below minSlice, so that the other half fills meanwhile.
	minSlice      = 1 << 20
	maxSlice      = 4 << 20
	maxSliceBatch = 16 << 20
	sliceFraction = 8
)

// streamThreads returns the model's threads as a stream uses them. It resolves m.workers at each
// call, because SetThreads replaces them.
func (m *Model) streamThreads() prefetch.Threads {
	return prefetch.Threads{
		Scheduler: m.scheduler, Readers: tiering.StreamReads, ReserveReaders: threadpool.ReserveForReaders,
		RunParts: func(parts int, part func(part, worker int)) { m.workers.Run(parts, part) },
	}
}

// StreamStats returns the bytes of streamed weights that were read, and how long matmuls waited
// for them.
func (m *Model) StreamStats() prefetch.StreamStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.stream(); s != nil {
		return s.Stats(prefetch.Weights)
	}
	return prefetch.StreamStats{}
}

// ClassStats counts the transfers of a class between flash and a model; see [prefetch.Class].
type ClassStats = prefetch.ClassStats

// TransferStats returns the counts of all classes, the most urgent first.
func TransferStats(m *Model) [prefetch.Classes]ClassStats { return m.scheduler.Stats() }

// stream returns the stream of the weights that are not resident, nil if all are. The caller
// holds m.mu.
func (m *Model) stream() *prefetch.Stream {
	if m.residency == nil {
		return nil
	}
	return m.residency.Stream
}

// runStreamed multiplies the streamed rows of a matmul as they arrive. With each slice it
// multiplies a proportional part of the resident rows that were deferred.
func (q *matmulQueue) runStreamed(mul *matmul) {
	matrix := mul.w.LastPlane()
	rest, resident := &matrix.Streamed, matrix.ResidentRows()
	run, begin := q.m.residency.Locate(rest.Run, rest.Offset)
	if rest.Run == len(q.m.Spec.Layers) {
		run += q.headReads
	}
	unitRows, unit := matrix.Unit()
	least, most := q.sliceLimits()
	deferred := q.deferResident(mul)
	end := mul.cpuRows()
	for row := resident; row < end && !q.failed(); row = mul.hi {
		off := begin + int64((row-resident)/unitRows)*int64(unit)
		bytes := (end - row + unitRows - 1) / unitRows * unit
		mul.data, q.err = q.m.residency.Stream.Take(q.ctx, run, off, unit, min(least, bytes), min(most, bytes))
		if q.err != nil {
			break
		}
		mul.lo, mul.hi = row, min(row+len(mul.data)/unit*unitRows, end)
		if deferred != nil {
			deferred.followStreamed(mul)
		}
		q.runNext()
	}
	mul.lo, mul.hi = 0, 0
	if deferred != nil {
		q.matmuls = q.matmuls[:1]
	}
}

// followStreamed sets the next rows of mul, a matmul of deferred resident rows: the same fraction
// of them as streamed has of its rows after its next slice.
func (mul *matmul) followStreamed(streamed *matmul) {
	matrix := streamed.w.LastPlane()
	unitRows, unit := matrix.Unit()
	resident := matrix.ResidentRows()
	mul.lo, mul.hi = mul.hi, resident
	if streamed.hi < streamed.w.Rows {
		mul.hi = int(float64(resident)*float64(streamed.hi-resident)/float64(streamed.w.Rows-resident)) / unitRows * unitRows
	}
	mul.data = matrix.Data[mul.lo/unitRows*unit:]
}

// defersResident reports whether a matmul's resident rows run together with the streamed ones.
// It is true for the output matrix: if all its resident rows ran first, reads would fill the ring
// and flash would then be idle.
func (q *matmulQueue) defersResident(mul *matmul) bool {
	rest := &mul.w.LastPlane().Streamed
	return !mul.high && rest.Count > 0 && rest.Run == len(q.m.Spec.Layers) && mul.w.Offload == nil && !q.outliers.needed()
}

// deferResident queues the deferred resident rows as a matmul of their own, or returns nil.
func (q *matmulQueue) deferResident(mul *matmul) *matmul {
	if !q.defersResident(mul) {
		return nil
	}
	q.matmuls = append(q.matmuls, *mul) // mul is the only queued matmul; the queue has capacity, so mul stays valid
	return &q.matmuls[1]
}

// sliceLimits returns the minimum and maximum bytes of a slice. The last slice may have fewer.
func (q *matmulQueue) sliceLimits() (least, most int) {
	ring := q.m.residency.WeightRing
	size := ring.Slots * ring.Piece
	most = maxSlice
	if q.n > upTokens {
		most = maxSliceBatch
	}
	return min(minSlice, size/sliceFraction), min(most, max(minSlice, size/2))
}
