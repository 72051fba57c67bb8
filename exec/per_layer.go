package exec

import (
	"math"

	"github.com/llmrun/llmrun/exec/altup"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

// perLayer adds, behind the MLP of each layer, what the layer's own embedding of a token says (see
// arch.Spec.PerLayer). The table of these embeddings is much larger than the other one and may be on
// flash: the tokens are known when a pass begins, so that the reads of their rows begin then, and the
// first layer waits for them when it has computed everything else. The bytes of the rows stay as they
// are stored until a layer decodes its part.
type perLayer struct {
	*passState
	mm    *matmulQueue
	alt   altUp
	rows  []byte    // [chunk, row of the table] as stored
	raw   []byte    // [LookupBytes] of the table
	first []float32 // [chunk, Dim] the residual stream before the first layer
	own   []float32 // [chunk, PerLayer] what the layer adds to the residual stream, before its gate
	gate  []float32 // [chunk, PerLayer]
	read  bool      // rows has those of the batch

	gatePart func(row, worker int)
}

// carveRows takes the buffers that are in use during a whole pass.
func (e *perLayer) carveRows(a *tiering.Arena) {
	if n := e.m.Spec.PerLayer; n > 0 {
		e.rows, e.raw = a.Bytes(e.chunk*e.m.weights.Table.RowBytes()), a.Bytes(e.m.weights.Table.LookupBytes())
		e.first = a.Floats(e.chunk * e.m.Spec.Dim)
	}
	e.alt.carve(a)
}

// carveLayer takes the buffers of one layer.
func (e *perLayer) carveLayer(a *tiering.Arena) {
	n := e.chunk * e.m.Spec.PerLayer
	e.own, e.gate = a.Floats(n), a.Floats(n)
}

// begin submits the reads of the batch's rows.
func (e *perLayer) begin() {
	if e.read = false; e.m.Spec.PerLayer > 0 {
		e.m.embedding.Table.Begin(e.batch.ids)
	}
}

// noteFirst keeps the residual stream before the first layer.
func (e *perLayer) noteFirst() {
	if e.m.Spec.PerLayer > 0 {
		copy(e.first, e.x[:e.n*e.m.Spec.Dim])
	}
}

// prune moves a row that continues, see pruneRows. A model of one layer prunes before it has waited for the rows, which
// arrive in the order of the batch.
func (e *perLayer) prune(to, from int) {
	if e.m.Spec.PerLayer > 0 && to != from {
		e.fetch()
		n := e.m.weights.Table.RowBytes()
		copy(e.rows[to*n:(to+1)*n], e.rows[from*n:(from+1)*n])
		moveRow(e.first, to, from, e.m.Spec.Dim)
		e.alt.prune(to, from)
	}
}

// fetch waits for the batch's rows of the table.
func (e *perLayer) fetch() {
	if !e.read && !e.failed() {
		e.read = true
		e.err = e.m.embedding.Table.LookupStored(e.ctx, e.rows, e.batch.ids, e.raw)
	}
}

// run adds what the current layer's own embeddings say, to all streams but the first if there are several.
func (e *perLayer) run() {
	e.alt.correct()
	if e.m.Spec.PerLayer > 0 {
		w := &e.w.PerLayer
		e.mm.queue(&w.Model, e.first, e.n, e.own)
		e.mm.queue(&w.Gate, e.x, e.n, e.gate)
		e.mm.run()
		if e.fetch(); e.failed() {
			return
		}
		e.forRows(e.n, e.gatePart)
		e.mm.queue(&w.Out, e.gate, e.n, e.ffn)
		e.prefetchLayer(e.index + 1)
		e.mm.run()
		e.queueNormRows(e.ffn, e.ffn, &w.PostNorm)
		if e.alt.on() {
			e.queueRowOp(rowOp{do: e.alt.addPart, src: e.ffn, width: e.m.Spec.Dim})
		} else {
			e.queueResidual(e.ffn)
		}
	}
	e.alt.join()
	if e.w.Scale != nil {
		e.queueRowOp(rowOp{do: scaleRow, dst: e.x, src: e.w.Scale, width: e.m.Spec.Dim})
	}
}

// scaleRow scales a row of dst by the only element of src.
func scaleRow(_ *passState, op *rowOp, row int) {
	quant.Scale(op.dst[row*op.width:(row+1)*op.width], op.src[0])
}

// gateRow adds the token's own embedding to its projection, which is normalized before, and gates the
// sum. The result is in gate.
func (e *perLayer) gateRow(row, worker int) {
	s, n := e.m.Spec, e.m.Spec.PerLayer
	own, gate := e.own[row*n:(row+1)*n], e.gate[row*n:(row+1)*n]
	quant.Scale(own, float32(1/math.Sqrt(float64(s.Dim))))
	applyNorm(&s.Norm, own, own, &e.m.weights.TableNorm)
	embedding := e.workers[worker].orderedRow[:n]
	table := &e.m.weights.Table
	size := table.RowBytes() / len(s.Layers)
	quant.DequantRow(table.Type, embedding, e.rows[row*table.RowBytes()+e.index*size:][:size])
	quant.AddScaled(own, embedding, float32(math.Sqrt(float64(n))))
	quant.Scale(own, math.Sqrt2/2)
	e.activate(gate, gate, own)
}

// openLookups opens the lookups of embedding rows.
func openLookups(m *Model, o *Options) (err error) {
	m.embedding, err = weights.NewEmbeddingLookup(&m.weights.Embed, o.Budget, m.weights.LookupMemory(o.Plan), m.scheduler)
	if err != nil || m.Spec.PerLayer == 0 {
		return err
	}
	m.embedding.Table, err = weights.NewEmbeddingLookup(&m.weights.Table, o.Budget, m.weights.TableMemory(), m.scheduler)
	return err
}

// altUp computes several residual streams of a token, of which x is the active one, and the second residual
// path beside attention (see arch.AltUp). It has the same rows as x. Its arithmetic is in package altup.
type altUp struct {
	*passState
	mm      *matmulQueue
	streams [altup.MaxStreams][]float32 // [chunk, Dim] each
	low     []float32                   // [chunk, LaurelRank]
	laurel  []float32                   // [chunk, Dim]

	beginPart, predictPart, laurelPart, correctPart, addPart, joinPart func(s *passState, op *rowOp, row int)
}

// makeParts creates the method values once, because creating one allocates.
func (a *altUp) makeParts() {
	a.beginPart, a.predictPart, a.laurelPart = a.beginRow, a.predictRow, a.laurelRow
	a.correctPart, a.addPart, a.joinPart = a.correctRow, a.addRow, a.joinRow
}

// on reports whether the model has several streams.
func (a *altUp) on() bool { return a.m.Spec.AltUp.Streams > 0 }

func (a *altUp) carve(arena *tiering.Arena) {
	s := a.m.Spec
	for i := range s.AltUp.Streams {
		a.streams[i] = arena.Floats(a.chunk * s.Dim)
	}
	if s.LaurelRank > 0 {
		a.low, a.laurel = arena.Floats(a.chunk*s.LaurelRank), arena.Floats(a.chunk*s.Dim)
	}
}

// prune moves a row that continues, see pruneRows.
func (a *altUp) prune(to, from int) {
	for i := range a.m.Spec.AltUp.Streams {
		moveRow(a.streams[i], to, from, a.m.Spec.Dim)
	}
	if a.on() {
		moveRow(a.low, to, from, a.m.Spec.LaurelRank)
	}
}

// begin queues what a layer begins with: the predictions of all streams, and the first half of the second
// residual path, which reads the same normalized row as attention. The first layer makes the streams.
func (a *altUp) begin() {
	if !a.on() {
		return
	}
	w, op := &a.w.AltUp, rowOp{width: a.m.Spec.Dim}
	if len(w.In) > 0 {
		for i := range w.In {
			a.mm.queue(&w.In[i], a.x, a.n, a.streams[i+1])
		}
		a.mm.run()
		op.do = a.beginPart
		a.queueRowOp(op)
	}
	op.do = a.predictPart
	a.queueRowOp(op)
	a.mm.queue(&w.Left, a.h, a.n, a.low)
}

// row returns a row's streams.
func (a *altUp) row(op *rowOp, row int) (streams altup.Streams) {
	for i := range a.m.Spec.AltUp.Streams {
		streams[i] = a.streams[i][row*op.width : (row+1)*op.width]
	}
	return streams
}

func (a *altUp) beginRow(_ *passState, op *rowOp, row int) {
	streams := a.row(op, row)
	copy(streams[0], a.x[row*op.width:])
	for i := 1; i < a.m.Spec.AltUp.Streams; i++ {
		altup.Match(streams[i], streams[0])
	}
}

func (a *altUp) predictRow(_ *passState, op *rowOp, row int) {
	s, streams := a.m.Spec, a.row(op, row)
	x, active := a.x[row*op.width:(row+1)*op.width], streams[s.AltUp.Active]
	applyNorm(&s.Norm, x, active, &a.w.AltUp.RouterNorm)
	a.w.AltUp.PredictRow(&streams, s.AltUp.Streams, x)
	copy(x, active)
}

// queueLaurel queues the second half of the second residual path.
func (a *altUp) queueLaurel() { a.mm.queue(&a.w.AltUp.Right, a.low, a.n, a.laurel) }

// addLaurel queues the addition of the second residual path. It overwrites mix.
func (a *altUp) addLaurel() {
	if a.on() {
		a.queueRowOp(rowOp{do: a.laurelPart, dst: a.mix, src: a.laurel, width: a.m.Spec.Dim})
	}
}

func (a *altUp) laurelRow(_ *passState, op *rowOp, row int) {
	s, lo, hi := a.m.Spec, row*op.width, (row+1)*op.width
	x, in, low := a.x[lo:hi], op.dst[lo:hi], op.src[lo:hi]
	applyNorm(&s.Norm, in, a.streams[s.AltUp.Active][lo:hi], &a.w.AttnNorm) // what attention read
	applyNorm(&s.Norm, low, low, &a.w.AltUp.LaurelNorm)
	quant.Add(x, in)
	quant.Add(x, low)
	quant.Scale(x, math.Sqrt2/2)
}

// correct queues the correction of all streams by what the layer computed. It overwrites ffn.
func (a *altUp) correct() {
	if a.on() {
		a.queueRowOp(rowOp{do: a.correctPart, dst: a.x, src: a.ffn, width: a.m.Spec.Dim})
	}
}

func (a *altUp) correctRow(_ *passState, op *rowOp, row int) {
	s, streams := a.m.Spec, a.row(op, row)
	lo, hi := row*op.width, (row+1)*op.width
	applyNorm(&s.Norm, op.src[lo:hi], op.dst[lo:hi], &a.w.AltUp.RouterNorm)
	a.w.AltUp.CorrectRow(&streams, s.AltUp.Streams, s.AltUp.Active, op.dst[lo:hi], op.src[lo:hi])
}

// addRow adds a row to all streams but the first.
func (a *altUp) addRow(_ *passState, op *rowOp, row int) {
	streams := a.row(op, row)
	for i := 1; i < a.m.Spec.AltUp.Streams; i++ {
		quant.Add(streams[i], op.src[row*op.width:(row+1)*op.width])
	}
}

// join makes the mean of all streams the residual stream, behind the last layer.
func (a *altUp) join() {
	w := &a.w.AltUp
	for i := range w.Out {
		a.mm.queue(&w.Out[i], a.streams[i+1], a.n, a.ffn)
		a.mm.run()
		a.queueRowOp(rowOp{do: a.joinPart, src: a.ffn, width: a.m.Spec.Dim, first: i == 0})
		a.flushRowOps()
	}
	if len(w.Out) > 0 {
		queueScale(a.passState, a.x, 1/float32(a.m.Spec.AltUp.Streams))
	}
}

func (a *altUp) joinRow(_ *passState, op *rowOp, row int) {
	lo, hi := row*op.width, (row+1)*op.width
	first := a.streams[0][lo:hi]
	if op.first {
		copy(a.x[lo:hi], first)
	}
	altup.Match(op.src[lo:hi], first)
	quant.Add(a.x[lo:hi], op.src[lo:hi])
}
