package exec

import (
	"context"
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/tiering"
)

// fewTokens is the number of tokens of the smallest pass of several tokens.
const fewTokens = 2

// RehearseLayers runs passes of a model's layers, one of each kind, with the output matrix and with weights of zeros, on Options.Accelerator, which must take all layers that it is offered.
// Its driver then has compiled the kernels of these layers and has allocated what it needs for
// itself. RehearseLayers reads no weights and leaves nothing open. What it allocates is less than what
// the model takes on the accelerator.
func RehearseLayers(ctx context.Context, f *modelfile.Files, o Options) (err error) {
	spec, err := f.Spec()
	if err != nil {
		return err
	}
	o.setDefaults()
	h, err := newUploader(f, spec, &o, nil)
	if err != nil {
		return err
	}
	offer := oneOfEachKind(h.offer(&o))
	offer.Spec.Context = min(offer.Spec.Context, max(o.Chunk, fewTokens)+1)
	offer.Context = offer.Spec.Context
	zeros, err := fillWithZeros(offer, o.Budget)
	if err != nil {
		return err
	}
	defer zeros.Free()
	network, err := o.Accelerator.Open(offer)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, network.Close()) }()
	for l, w := range offer.Layers {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := network.UploadLayer(l, w); err != nil {
			return err
		}
	}
	if err := network.UploadOutput(make([]float32, spec.Dim), offer.Head); err != nil {
		return err
	}
	return rehearsePasses(ctx, network, o.Chunk)
}

// oneOfEachKind returns an offer with one of the layers for each combination of a layer's description and of the sizes and types of its matrices.
func oneOfEachKind(offer *Offer) *Offer {
	few, spec := *offer, *offer.Spec
	few.Layers, spec.Layers = nil, nil
	known := map[string]bool{}
	for l, w := range offer.Layers {
		kind := fmt.Sprint(offer.Spec.Layers[l])
		for _, m := range w.matrices() {
			kind += fmt.Sprintf(" %v %d %d %t", m.Type, m.Rows, m.Cols, m.Bias != nil)
		}
		if !known[kind] {
			known[kind] = true
			few.Layers, spec.Layers = append(few.Layers, w), append(spec.Layers, offer.Spec.Layers[l])
		}
	}
	few.Spec = &spec
	return &few
}

// matrices returns the matrices of a layer.
func (w *LayerWeights) matrices() []*Linear {
	return []*Linear{&w.Q, &w.K, &w.V, &w.O, &w.Gate, &w.Up, &w.Down}
}

// fillWithZeros gives all matrices of an offer the same memory, whose pages are only read.
func fillWithZeros(offer *Offer, budget *tiering.Budget) (*tiering.Frame, error) {
	all := []*Linear{&offer.Head}
	for _, w := range offer.Layers {
		all = append(all, w.matrices()...)
	}
	sizes, largest := make([]int, len(all)), 0
	for i, m := range all {
		rowBytes, err := rowBytesOf(m)
		if err != nil {
			return nil, err
		}
		sizes[i] = m.Rows * rowBytes
		largest = max(largest, sizes[i])
	}
	frame, err := tiering.Alloc(budget, tiering.Scratch, largest)
	if err != nil {
		return nil, err
	}
	for i, m := range all {
		m.Data = frame.Bytes()[:sizes[i]]
	}
	return frame, nil
}

// rowBytesOf returns the bytes of a row, 0 for an absent matrix.
func rowBytesOf(m *Linear) (int, error) {
	if m.Rows == 0 {
		return 0, nil
	}
	return m.Type.RowBytes(m.Cols)
}

// rehearsePasses runs a prefill chunk, a chunk of few tokens and three single tokens: drivers compile a
// kernel again for a much smaller number of work items, and networks record the commands of a
// token that follows others.
func rehearsePasses(ctx context.Context, network Network, chunk int) (err error) {
	memory, err := network.NewSequence()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, memory.Close()) }()
	for _, tokens := range []int{max(chunk, fewTokens), fewTokens, 1, 1, 1} {
		if err := ctx.Err(); err != nil { // compiling kernels takes seconds
			return err
		}
		clear(network.Input(tokens))
		c := Chunk{Tokens: tokens, Want: []int{tokens - 1}, Each: func(int, []float32) error { return nil }}
		if tokens == 1 {
			c.Position = fewTokens
		}
		if err := network.Read(ctx, memory, &c); err != nil {
			return err
		}
	}
	return nil
}
