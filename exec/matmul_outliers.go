package exec

import (
	"errors"
	"fmt"
	"math"

	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/trace"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/tiering"
)

// outlierPass computes both halves of the W8A8 matmuls at the same time. The integer half clamps
// each activation to the range of its input's scale. The outlier path multiplies the excess over
// that range in float32.
type outlierPass struct {
	*outlierPath
	q          *matmulQueue
	totalTiles int        // row tiles of all matmuls of a step
	partTiles  int        // row tiles of one part of the integer half
	excess     [1]float32 // scratch: the excess of one outlier
	err        error      // why a column could not be read

	marks    []byte    // [inputs of a step, chunk] 1 for rows with outliers
	counts   []int32   // [maxCols] number of rows with an outlier in each channel
	channels []int32   // [maxCols] channels with an outlier in any row, ascending
	sums     []float32 // [chunk, rows of all matrices of a step] results of the outlier path
	column   []float32 // [maxRows] a column from flash
	raw      []byte    // its bytes as stored

	lanes []*trace.Lane // [workers]
	merge func(row, worker int)
}

// addOutlierPath prepares the pass for the model's outlier path, if it has one.
func (q *matmulQueue) addOutlierPath() {
	s := q.m.outliers
	if s == nil {
		return
	}
	q.outliers = &outlierPass{outlierPath: s, q: q}
	q.outliers.merge = q.outliers.mergeRow
	for i := range q.workers {
		q.outliers.lanes = append(q.outliers.lanes, s.recorder.Lane("cpu", fmt.Sprintf("worker %d", i)))
	}
}

// carve takes the buffers of the largest step.
func (s *outlierPass) carve(a *tiering.Arena) {
	cols, rows, step := 0, 0, s.m.Spec.Dim
	for l := range s.m.weights.Layers {
		w := &s.m.weights.Layers[l]
		w.Each(func(_ string, m *weights.Linear) { cols, rows = max(cols, m.Cols), max(rows, m.Rows) })
		step = max(step, w.Q.Rows+w.K.Rows+w.V.Rows, w.ConvIn.Rows, w.MLP.Gate.Rows+w.MLP.Up.Rows, w.Shared.Gate.Rows+w.Shared.Up.Rows)
	}
	chunk := s.q.chunk
	s.marks = a.Bytes(chunk * s.q.maxMatmuls())
	s.counts, s.channels = a.Int32s(cols), a.Int32s(cols)
	s.sums, s.column, s.raw = a.Floats(chunk*step), a.Floats(rows), a.Bytes(4*rows+2*columnOverhead)
}

// columnOverhead bounds the checksum and the padding of a calibration's column.
const columnOverhead = 8

// partsPerThread is the number of parts of the integer half per thread: enough that a slow thread,
// or the one that computes the outlier path, takes fewer.
const partsPerThread = 8

// needed reports whether any queued matmul has an outlier path.
func (s *outlierPass) needed() bool {
	if s == nil {
		return false
	}
	for i := range s.q.matmuls {
		if s.q.matmuls[i].w.HasOutlierPath() {
			return true
		}
	}
	return false
}

// run computes both halves of the queued matmuls; add joins them. Part 0 is the whole outlier
// path, so that one thread starts it at once. The other parts are the integer half of the rows
// that are not offloaded.
func (s *outlierPass) run() {
	p := s.q
	s.totalTiles = 0
	for i := range p.matmuls {
		s.totalTiles += p.matmuls[i].tiles()
	}
	s.partTiles = max(1, s.totalTiles/(partsPerThread*p.m.workers.Count()))
	p.m.workers.RunTask(1+(s.totalTiles+s.partTiles-1)/s.partTiles, s)
	p.err, s.err = errors.Join(p.err, s.err), nil
}

// add adds the results of the outlier path to those of the integer half, whichever device
// computed them.
func (s *outlierPass) add() {
	if s.needed() && s.q.err == nil {
		s.q.forRows(s.q.n, s.merge)
	}
}

// Part computes the outlier path, or a part of the integer half. It implements threadpool.Task.
func (s *outlierPass) Part(part, worker int) {
	lane := s.lanes[worker]
	if part == 0 {
		s.runColumns(lane)
		return
	}
	lo, hi := (part-1)*s.partTiles, min(part*s.partTiles, s.totalTiles)
	for i := range s.q.matmuls {
		mul := &s.q.matmuls[i]
		tiles := mul.tiles()
		if from, to := max(0, lo), min(tiles, hi); from < to {
			lane.Begin(mul.w.SpanNames().Integers)
			s.q.multiplyRows(mul, from*tiled.TileRows, min(to*tiled.TileRows, mul.hi), worker)
			lane.End()
		}
		lo, hi = lo-tiles, hi-tiles
	}
}

// runColumns computes the outlier paths of all queued matmuls, one after the other in sums.
func (s *outlierPass) runColumns(lane *trace.Lane) {
	sums, last := s.sums, -1
	for i := range s.q.matmuls {
		mul := &s.q.matmuls[i]
		if !mul.w.HasOutlierPath() {
			continue
		}
		lane.Begin(mul.w.SpanNames().Outliers)
		in := &s.q.inputs[mul.input]
		marks := s.marksOf(mul.input)
		if mul.input != last {
			s.findChannels(in, marks)
			last = mul.input
		}
		s.addColumnsOf(in, mul.w, marks, sums)
		sums = sums[mul.n*mul.w.Rows:]
		lane.End()
	}
}

// marksOf returns the marks of an input's rows with outliers.
func (s *outlierPass) marksOf(input int) []byte {
	return s.marks[input*s.q.chunk : (input+1)*s.q.chunk]
}

// findChannels lists the channels with an outlier in any row.
func (s *outlierPass) findChannels(in *matmulInput, marks []byte) {
	limit := in.perTensor.Limit
	counts := s.counts[:in.cols]
	clear(counts)
	s.stats.Tokens += int64(in.n)
	for row := range in.n {
		if marks[row] == 0 {
			continue
		}
		s.stats.Marked++
		for c, v := range rowOf(in.x, in.rowIndex, in.cols, row) {
			if weights.MagnitudeBits(v) > limit {
				counts[c]++
			}
		}
	}
	s.listChannels(counts)
}

// listChannels lists the channels with a count above 0.
func (s *outlierPass) listChannels(counts []int32 /* [cols] */) {
	s.channels = s.channels[:0]
	for c, n := range counts {
		if n > 0 {
			s.channels = append(s.channels, int32(c))
			s.stats.Outliers += int64(n)
		}
	}
}

// addColumnsOf multiplies the excess of the outliers with the columns of a matrix. It adds the
// resident columns first, then those on flash, so that a token's order of additions does not
// depend on the other tokens.
func (s *outlierPass) addColumnsOf(in *matmulInput, w *weights.Linear, marks []byte, sums []float32 /* [n, Rows] */) {
	c := w.PerTensor.Outliers
	for row := range in.n {
		if marks[row] != 0 {
			clear(sums[row*w.Rows : (row+1)*w.Rows])
		}
	}
	for _, channel := range s.channels {
		if at := int(c.Slots[channel]); at >= 0 {
			s.stats.Hot++
			s.addChannel(in, w, marks, sums, int(channel), c.Hot[at*w.Rows:(at+1)*w.Rows])
		}
	}
	for _, channel := range s.channels {
		if c.Slots[channel] >= 0 {
			continue
		}
		if s.err = errors.Join(s.err, s.q.ctx.Err()); s.err != nil {
			return
		}
		if s.err = s.file.Column(c.Matrix, int(channel), s.column, s.raw); s.err != nil {
			return
		}
		s.stats.Fetched++
		s.stats.Read += c.Matrix.ColumnBytes()
		s.addChannel(in, w, marks, sums, int(channel), s.column[:w.Rows])
	}
}

// addChannel adds the products of one channel's outliers with its column.
func (s *outlierPass) addChannel(in *matmulInput, w *weights.Linear, marks []byte, sums []float32 /* [n, Rows] */, channel int, column []float32 /* [Rows] */) {
	limit, most := in.perTensor.Limit, 127*in.perTensor.Scale
	for row := range in.n {
		if marks[row] == 0 {
			continue
		}
		v := rowOf(in.x, in.rowIndex, in.cols, row)[channel]
		if weights.MagnitudeBits(v) <= limit {
			continue
		}
		s.excess[0] = v - float32(math.Copysign(float64(most), float64(v)))
		quant.WeightedSum(sums[row*w.Rows:(row+1)*w.Rows], w.Rows, s.excess[:], 1, column, w.Rows, 1, w.Rows, 1)
	}
}

// mergeRow adds a row's results of the outlier path to those of the integer half.
func (s *outlierPass) mergeRow(row, _ int) {
	sums := s.sums
	for i := range s.q.matmuls {
		mul := &s.q.matmuls[i]
		if !mul.w.HasOutlierPath() {
			continue
		}
		if rows := mul.w.Rows; s.marksOf(mul.input)[row] != 0 {
			quant.Add(mul.y[row*rows:(row+1)*rows], sums[row*rows:(row+1)*rows])
		}
		sums = sums[mul.n*mul.w.Rows:]
	}
}
