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

// outlierPass computes both halves of products in integers at the same time: the
// integers, and the shadow, which is what lies beyond their scales.
type outlierPass struct {
	*outlierPath
	q     *matmulQueue
	total int        // tiles of rows of all jobs of a step
	step  int        // of those that a part of the integer half has
	one   [1]float32 // what is beyond
	err   error      // why columns could not be read

	marks    []byte    // [inputs of a step, chunk] 1 for rows that have outliers
	counts   []int32   // [maxCols] how many rows have one in each channel
	channels []int32   // [maxCols] those that any row has one in, ascending
	sums     []float32 // [chunk, rows of all matrices of a step]
	column   []float32 // [maxRows] one that came from flash, and
	raw      []byte    // its bytes there

	lanes []*trace.Lane // [workers]
	merge func(row, worker int)
}

// addOutlierPath prepares the pass for the model's shadow, if it has one.
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

// carve takes the memory of steps.
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
	s.sums, s.column, s.raw = a.Floats(chunk*step), a.Floats(rows), a.Bytes(4*rows+2*sumAlign)
}

// sumAlign is more than a column of a calibration has for its sum, and to fill it up.
const sumAlign = 8

// partsPerThread is how many parts of the integer half there are for each worker:
// enough for a slow one, or the one with the shadow, to have fewer.
const partsPerThread = 8

// wanted reports whether some of the pass's products have a shadow.
func (s *outlierPass) wanted() bool {
	if s == nil {
		return false
	}
	for i := range s.q.matmuls {
		if s.q.matmuls[i].w.HasShadow() {
			return true
		}
	}
	return false
}

// run computes both halves of what is on the pass's list, for add to add them up. The
// first part is the whole of the shadow, so that a worker begins with it at once;
// the others take the rows of the integer half meanwhile, those that are not another
// device's.
func (s *outlierPass) run() {
	p := s.q
	s.total = 0
	for i := range p.matmuls {
		s.total += p.matmuls[i].tiles()
	}
	s.step = max(1, s.total/(partsPerThread*p.m.workers.Count()))
	p.m.workers.RunTask(1+(s.total+s.step-1)/s.step, s)
	p.err, s.err = errors.Join(p.err, s.err), nil
}

// add adds the shadows of what is on the pass's list to what the integers gave, on
// whichever device.
func (s *outlierPass) add() {
	if s.wanted() && s.q.err == nil {
		s.q.forRows(s.q.n, s.merge)
	}
}

// Part computes the shadow, or a part of the integer half: threadpool.Task has it.
func (s *outlierPass) Part(part, worker int) {
	lane := s.lanes[worker]
	if part == 0 {
		s.compute(lane)
		return
	}
	lo, hi := (part-1)*s.step, min(part*s.step, s.total)
	for i := range s.q.matmuls {
		j := &s.q.matmuls[i]
		tiles := j.tiles()
		if from, to := max(0, lo), min(tiles, hi); from < to {
			lane.Begin(j.w.SpanNames().Integers)
			s.q.multiplyRows(j, from*tiled.TileRows, min(to*tiled.TileRows, j.hi), worker)
			lane.End()
		}
		lo, hi = lo-tiles, hi-tiles
	}
}

// compute makes the shadows of all jobs, one behind the other in sums.
func (s *outlierPass) compute(lane *trace.Lane) {
	sums, last := s.sums, -1
	for i := range s.q.matmuls {
		j := &s.q.matmuls[i]
		if !j.w.HasShadow() {
			continue
		}
		lane.Begin(j.w.SpanNames().Shadow)
		in := &s.q.inputs[j.input]
		marks := s.marksOf(j.input)
		if j.input != last {
			s.findChannels(in, marks)
			last = j.input
		}
		s.computeOne(in, j.w, marks, sums)
		sums = sums[j.n*j.w.Rows:]
		lane.End()
	}
}

// marksOf returns which rows of an input have outliers.
func (s *outlierPass) marksOf(input int) []byte {
	return s.marks[input*s.q.chunk : (input+1)*s.q.chunk]
}

// findChannels lists the channels that have an outlier in any row.
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
		for c, v := range rowOf(in.x, in.of, in.cols, row) {
			if weights.MagnitudeBits(v) > limit {
				counts[c]++
			}
		}
	}
	s.listChannels(counts)
}

// listChannels lists the channels that were counted.
func (s *outlierPass) listChannels(counts []int32 /* [cols] */) {
	s.channels = s.channels[:0]
	for c, n := range counts {
		if n > 0 {
			s.channels = append(s.channels, int32(c))
			s.stats.Outliers += int64(n)
		}
	}
}

// computeOne multiplies what is beyond the scale with the columns of a matrix: those
// in memory first, and then those on flash, so that the order for a token does not
// depend on the others.
func (s *outlierPass) computeOne(in *matmulInput, w *weights.Linear, marks []byte, sums []float32 /* [n, Rows] */) {
	c := w.PerTensor.Columns
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
	whole, most := in.perTensor, 127*in.perTensor.Scale
	for row := range in.n {
		if marks[row] == 0 {
			continue
		}
		v := rowOf(in.x, in.of, in.cols, row)[channel]
		if weights.MagnitudeBits(v) <= whole.Limit {
			continue
		}
		s.one[0] = v - float32(math.Copysign(float64(most), float64(v)))
		quant.WeightedSum(sums[row*w.Rows:(row+1)*w.Rows], w.Rows, s.one[:], 1, column, w.Rows, 1, w.Rows, 1)
	}
}

// mergeRow adds the shadow of a row to what the integers gave.
func (s *outlierPass) mergeRow(row, _ int) {
	sums := s.sums
	for i := range s.q.matmuls {
		j := &s.q.matmuls[i]
		if !j.w.HasShadow() {
			continue
		}
		if rows := j.w.Rows; s.marksOf(j.input)[row] != 0 {
			quant.Add(j.y[row*rows:(row+1)*rows], sums[row*rows:(row+1)*rows])
		}
		sums = sums[j.n*j.w.Rows:]
	}
}
