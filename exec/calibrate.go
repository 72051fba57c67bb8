package exec

import (
	"context"
	"fmt"

	"github.com/llmrun/llmrun/quant"
)

// Importance says, for each matrix by its name in GGUF files, the mean square of
// each of its inputs while a text was read: what an error in a weight of that
// input does to the results.
type Importance map[string][]float32 // [cols]

// inputPowers adds up squares of inputs.
type inputPowers struct {
	sums map[*linear]*inputPower
}

type inputPower struct {
	name string
	sum  []float32 // [cols]
	rows int
}

// observe counts what a product is about to multiply.
func (o *inputPowers) observe(j *job) {
	p := o.sums[j.w]
	if p == nil {
		return
	}
	if p.sum == nil {
		p.sum = make([]float32, j.w.Cols)
	}
	for row := range j.n {
		for i, v := range j.row(row) {
			p.sum[i] += float32(v * v)
		}
	}
	p.rows += j.n
}

// calibrationWindow is how many tokens are read without what was before.
const calibrationWindow = 512

// Calibrate measures the importance of the inputs of all matrices of layers, by
// reading token ids with the model as it is. progress, which may be nil, is told
// how many of them were read.
func Calibrate(ctx context.Context, f *Files, ids []int32, o Options, progress func(done, total int64)) (Importance, error) {
	if len(ids) == 0 {
		return nil, fmt.Errorf("%w: a text of no tokens to calibrate with", ErrModel)
	}
	m, err := Load(ctx, f, o)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	powers := &inputPowers{sums: map[*linear]*inputPower{}}
	for l := range m.weights.layers {
		m.weights.layers[l].each(func(role string, w *linear) {
			powers.sums[w] = &inputPower{name: tensorName(role, l, ".weight")}
		})
	}
	m.pass.observe = powers.observe
	if err := m.readInWindows(ctx, ids, func(done int) {
		if progress != nil {
			progress(int64(done), int64(len(ids)))
		}
	}); err != nil {
		return nil, err
	}
	importance := Importance{}
	for _, p := range powers.sums {
		if p.rows > 0 { // some expert may never have been asked
			quant.Scale(p.sum, 1/float32(p.rows))
			importance[p.name] = p.sum
		}
	}
	return importance, nil
}

// readInWindows reads a text in windows that know nothing of each other.
func (m *Model) readInWindows(ctx context.Context, ids []int32, progress func(done int)) error {
	window := min(calibrationWindow, m.Spec.Context)
	for done := 0; done < len(ids); done += window {
		progress(done)
		if err := m.readAlone(ctx, ids[done:min(done+window, len(ids))]); err != nil {
			return err
		}
	}
	progress(len(ids))
	return nil
}

// readAlone reads tokens as a text of their own.
func (m *Model) readAlone(ctx context.Context, ids []int32) error {
	s, err := m.NewSequence(len(ids))
	if err != nil {
		return err
	}
	defer s.Close()
	return m.Extend(ctx, s, ids, &Reader{})
}

// each calls do with every matrix of a layer that a mix may quantize.
func (w *layerWeights) each(do func(role string, w *linear)) {
	for role, l := range map[string]*linear{
		"attn_q": &w.q, "attn_k": &w.k, "attn_v": &w.v, "attn_output": &w.o,
		"shortconv.in_proj": &w.convIn, "shortconv.out_proj": &w.convOut,
		"ffn_gate": &w.mlp.gate, "ffn_up": &w.mlp.up, "ffn_down": &w.mlp.down,
		"ffn_gate_shexp": &w.shared.gate, "ffn_up_shexp": &w.shared.up, "ffn_down_shexp": &w.shared.down,
	} {
		do(role, l)
	}
	for i := range w.experts {
		e := &w.experts[i]
		do(expertRole("ffn_gate", i), &e.gate)
		do(expertRole("ffn_up", i), &e.up)
		do(expertRole("ffn_down", i), &e.down)
	}
}
