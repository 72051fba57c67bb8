package exec

import (
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/recurrent"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

// The mixers besides attention. Their arithmetic is in package recurrent; this file runs it over the sequences of a
// batch, on all threads.

// convChannels is the number of channels of a convolution that one part computes.
const convChannels = recurrent.BlockChannels

// mixers computes the layers with recurrent state.
type mixers struct {
	*passState
	mm *matmulQueue

	in    []float32 // [chunk, channels] inputs of the convolution; later the outputs of the heads, [chunk, inner]
	conv  []float32 // [chunk, channels] results of the convolution
	gate  []float32 // [chunk, inner] what gates the outputs
	decay []float32 // [chunk, heads] the steps, then the decays
	value []float32 // [chunk, heads] the weights of the values

	vectors recurrent.Weights // of the current layer
	kernel  recurrent.Convolution

	convPart, scalePart, preparePart, advancePart, finishPart func(part, worker int)
}

// makeParts creates the method values once, because creating one allocates.
func (b *mixers) makeParts() {
	b.convPart, b.scalePart, b.preparePart, b.advancePart, b.finishPart = b.convolve, b.scaleRow, b.prepareHeads, b.advanceHeads, b.finishHeads
}

// carve takes the buffers of layers with recurrent state.
func (b *mixers) carve(a *tiering.Arena, w *widths) {
	r := &b.m.Spec.Recurrence
	if w.convs {
		b.in = a.Floats(b.chunk * 3 * b.m.Spec.Dim)
	}
	if w.recurs {
		if !w.convs {
			b.in = a.Floats(b.chunk * r.Channels())
		}
		b.conv, b.gate = a.Floats(b.chunk*r.Channels()), a.Floats(b.chunk*r.Inner())
		b.decay, b.value = a.Floats(b.chunk*r.Heads), a.Floats(b.chunk*r.Heads)
	}
	if w.convs || w.recurs {
		for i := range b.workers {
			b.workers[i].factors = a.Floats(recurrent.Factors)
		}
	}
}

// runMixer combines the tokens with those before them, into mix.
func (p *pass) runMixer(in []float32 /* [n, Dim] */) {
	switch p.layer.Mixer {
	case arch.Attention:
		p.runAttention(in)
	case arch.ShortConv:
		p.runShortConv(in)
	case arch.Recurrent:
		p.runRecurrent(in, p.mix)
	case arch.AttentionAndRecurrent:
		p.runRecurrent(in, p.ffn)
		p.flushRowOps()
		p.runAttention(in)
		queueScale(p.passState, p.mix, p.m.Spec.AttnOutScale)
		p.queueRowOp(rowOp{do: sumRow, dst: p.mix, src: p.ffn, width: p.m.Spec.Dim})
	case arch.NoMixer:
		p.pruneRows()
	}
}

// runShortConv computes a gated short convolution into mix: the input projection gives
// three vectors B, C and x of each token; the layer convolves B·x over the last few tokens,
// channel by channel, gates the result with C and projects it.
func (p *pass) runShortConv(in []float32 /* [n, Dim] */) {
	b, dim := &p.mixers, p.m.Spec.Dim
	p.mm.queue(&p.w.ConvIn, in, p.n, b.in)
	p.mm.run()
	b.kernel = recurrent.Convolution{Kernel: p.w.Conv, Bias: p.w.ConvBias, Channels: dim, Taps: p.m.Spec.ConvTaps}
	p.m.workers.Run((dim+convChannels-1)/convChannels, b.convPart)
	p.pruneRows()
	p.mm.queue(&p.w.ConvOut, p.h, p.n, p.mix)
	p.mm.run()
}

// runRecurrent computes a gated delta net or a Mamba-2 layer into out: it projects each token to the channels of a
// convolution, a gate and a step for each head, convolves the channels, advances the matrix of each head by the keys and
// values that the channels give, gates and normalizes what the queries read from it, and projects that.
func (p *pass) runRecurrent(in, out []float32 /* [n, Dim] */) {
	b, w, r := &p.mixers, &p.w.Recurrent, &p.m.Spec.Recurrence
	b.project(in)
	b.vectors = w.Vectors
	b.kernel = recurrent.Convolution{Kernel: w.Vectors.Kernel, Bias: w.Vectors.Bias, Channels: r.Channels(), Taps: r.Taps}
	p.m.workers.Run((r.Channels()+convChannels-1)/convChannels, b.convPart)
	p.forRows(p.n, b.preparePart)
	p.m.workers.Run(recurrent.Parts(r), b.advancePart)
	p.forRows(p.n, b.finishPart)
	p.pruneRows()
	p.mm.queue(&w.Out, b.in, p.n, out)
	p.mm.run()
	queueScale(p.passState, out, r.OutScale)
}

// project computes the channels, the gates and the steps of all rows.
func (b *mixers) project(in []float32 /* [n, Dim] */) {
	w, r := &b.w.Recurrent, &b.m.Spec.Recurrence
	b.mm.queue(&w.In, in, b.n, b.in)
	b.mm.queue(&w.Gate, in, b.n, b.gate)
	b.mm.queue(&w.Step, in, b.n, b.decay)
	if r.Delta {
		b.mm.queue(&w.Value, in, b.n, b.value)
	}
	b.mm.run()
	if r.InScales != unscaled {
		b.forRows(b.n, b.scalePart)
	}
}

// convolve computes some channels of all rows.
func (b *mixers) convolve(part, worker int) {
	lo, hi := part*convChannels, min((part+1)*convChannels, b.kernel.Channels)
	factors := b.workers[worker].factors
	for _, r := range b.batch.runs {
		if b.layer.Mixer == arch.ShortConv {
			b.convolveGated(r, lo, hi, factors)
		} else {
			b.convolveRun(r, lo, hi, factors)
		}
	}
}

// convolveGated convolves channels lo to hi-1 of one sequence's rows for a short convolution. The input projection has
// already read h, so the result overwrites it.
func (b *mixers) convolveGated(r run, lo, hi int, factors []float32) {
	dim := b.m.Spec.Dim
	a := r.seq.state.Layer(b.index, r.count)
	rows := b.in[r.row*3*dim:]
	for t := range r.count {
		quant.Mul(rows[(3*t+2)*dim:][lo:hi], rows[3*t*dim:][lo:hi])
	}
	in, out := recurrent.Rows{Data: rows[2*dim:], Stride: 3 * dim}, recurrent.Rows{Data: b.h[r.row*dim:], Stride: dim}
	b.kernel.Run(out, in, a.ConvNext, a.ConvNow, lo, hi, r.count, factors)
	for t := range r.count {
		quant.Mul(out.Row(t)[lo:hi], rows[(3*t+1)*dim:][lo:hi])
	}
	if a.Steps != nil {
		recurrent.Record(a.Steps, dim, 0, in, lo, hi, r.count)
	}
}

// convolveRun convolves channels lo to hi-1 of one sequence's rows.
func (b *mixers) convolveRun(r run, lo, hi int, factors []float32) {
	channels := b.kernel.Channels
	a := r.seq.state.Layer(b.index, r.count)
	in := recurrent.Rows{Data: b.in[r.row*channels:], Stride: channels}
	out := recurrent.Rows{Data: b.conv[r.row*channels:], Stride: channels}
	b.kernel.Run(out, in, a.ConvNext, a.ConvNow, lo, hi, r.count, factors)
	for t := range r.count {
		x := out.Row(t)[lo:hi]
		quant.Silu(x, x)
	}
	if a.Steps != nil {
		recurrent.Record(a.Steps, recurrent.StepFloats(&b.m.Spec.Recurrence), 0, in, lo, hi, r.count)
	}
}

// unscaled are the scales of projections that are as they are.
var unscaled = [5]float32{}

// scaleRow multiplies the projections of a row.
func (b *mixers) scaleRow(row, _ int) {
	r := &b.m.Spec.Recurrence
	recurrent.ScaleParts(r, b.in[row*r.Channels():], b.gate[row*r.Inner():], b.decay[row*r.Heads:])
}

// prepareHeads normalizes the keys of a row and computes its gates.
func (b *mixers) prepareHeads(row, _ int) {
	r := &b.m.Spec.Recurrence
	recurrent.NormKeys(r, b.conv[row*r.Channels():][:r.Channels()])
	recurrent.Gate(r, &b.vectors, b.decay[row*r.Heads:][:r.Heads], b.value[row*r.Heads:][:r.Heads])
}

// advanceHeads takes one part of the matrices over the rows of each sequence.
func (b *mixers) advanceHeads(part, _ int) {
	r := &b.m.Spec.Recurrence
	for _, run := range b.batch.runs {
		a := run.seq.state.Layer(b.index, run.count)
		in := b.inputs(run.row)
		if a.Steps != nil && part == 0 {
			in.Record(r, a.Steps, run.count)
		}
		recurrent.Advance(r, a.MatrixNext, a.MatrixNow, part, &in, run.count)
	}
}

// inputs returns what the rows from one on do to the matrices.
func (b *mixers) inputs(row int) recurrent.Inputs {
	r := &b.m.Spec.Recurrence
	return recurrent.Inputs{
		Channels: recurrent.Rows{Data: b.conv[row*r.Channels():], Stride: r.Channels()},
		Decay:    recurrent.Rows{Data: b.decay[row*r.Heads:], Stride: r.Heads},
		Weight:   recurrent.Rows{Data: b.value[row*r.Heads:], Stride: r.Heads},
		Skip:     b.vectors.Skip,
		Out:      recurrent.Rows{Data: b.in[row*r.Inner():], Stride: r.Inner()},
	}
}

// finishHeads gates and normalizes the outputs of a row.
func (b *mixers) finishHeads(row, _ int) {
	r := &b.m.Spec.Recurrence
	recurrent.Finish(r, &b.vectors, b.m.Spec.Norm.Eps, b.in[row*r.Inner():][:r.Inner()], b.gate[row*r.Inner():][:r.Inner()])
}
