package weights

import (
	"context"
	"fmt"
	"strings"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store/pack"
)

// planMatrix plans a required matrix. err is the error of finding s.
func (ld *Loader) planMatrix(m *Matrix, role string, layer int, s modelfile.TensorSlice, err error) error {
	if err != nil {
		return err
	}
	ld.places = append(ld.places, Placement{
		name: modelfile.TensorName(role, layer, ".weight"), Slice: s, Matrix: m, tile: ld.isTiled(&s),
	})
	return ld.planOrder(m, role, layer, &s)
}

// planVector plans an optional vector of n elements.
func (ld *Loader) planVector(v *[]float32, role string, layer int, suffix string, n int) error {
	s, ok, err := ld.Tensors.Vector(role, layer, suffix, n)
	if ok && err == nil {
		ld.places = append(ld.places, Placement{name: modelfile.TensorName(role, layer, suffix), Slice: s, Vector: v})
	}
	return err
}

// planRequired plans a required vector of n elements.
func (ld *Loader) planRequired(v *[]float32, role string, layer, n int) error {
	if _, ok := ld.Tensors.Find(role, layer, ".weight"); ok {
		return ld.planVector(v, role, layer, ".weight", n)
	}
	if s, ok, err := ld.Tensors.Vector(role, layer, "", n); ok && ld.Tensors.Hyper.GGUF { // some converters omit the suffix
		ld.places = append(ld.places, Placement{name: modelfile.TensorName(role, layer, ".weight"), Slice: s, Vector: v})
		return err
	}
	return ld.Tensors.Missing(role, layer)
}

// planGain plans a required norm.
func (ld *Loader) planGain(g *Gain, role string, layer, n int) error {
	if err := ld.planRequired(&g.Weight, role, layer, n); err != nil {
		return err
	}
	if !ld.Spec.Norm.Layer {
		return nil
	}
	return ld.planVector(&g.Bias, role, layer, ".bias", n)
}

// planLinear plans a required matrix and its optional scale and bias.
func (ld *Loader) planLinear(m *Linear, role string, layer, rows, cols int) error {
	s, err := ld.Tensors.Matrix(role, layer, rows, cols)
	if err := ld.planMatrix(&m.Matrix, role, layer, s, err); err != nil {
		return err
	}
	if err := ld.planScale(m, role, layer); err != nil {
		return err
	}
	return ld.planVector(&m.Bias, role, layer, ".bias", s.Rows)
}

// planEnds plans the embedding, the final norm and the output matrix. An embedding that is
// not the output matrix has a layout of its own.
func (ld *Loader) planEnds(w *Weights) (layouts []Layout, err error) {
	s := ld.Spec
	ld.places = nil
	embed, err := ld.Tensors.Matrix("token_embd", -1, s.Vocab, s.Dim)
	if err := ld.planMatrix(&w.Embed.Matrix, "token_embd", -1, embed, err); err != nil {
		return nil, err
	}
	_, hasHead := ld.Tensors.Find("output", -1, ".weight")
	tied := s.Tied || (!hasHead && (ld.Tensors.Hyper.GGUF || ld.Tensors.Hyper.Tied == nil))
	if !tied {
		ld.places[0].tile = false
		layouts = append(layouts, Layout{Name: "embedding", Kind: EmbeddingLayout, Places: ld.places})
		ld.places = nil
	}
	if s.PerLayer > 0 {
		ends := ld.places
		table, err := ld.planTable(w)
		if err != nil {
			return nil, err
		}
		layouts, ld.places = append(layouts, table), ends
		if err := ld.planGain(&w.TableNorm, "per_layer_proj_norm", -1, s.PerLayer); err != nil {
			return nil, err
		}
	}
	if err := ld.planEncoder(w); err != nil {
		return nil, err
	}
	if s.Encoder.NoFinalNorm {
		return append(layouts, Layout{Name: "ends", Kind: EndsLayout, Layer: len(w.Layers), Places: ld.places}), nil
	}
	normRole := "output_norm"
	if _, ok := ld.Tensors.Find(normRole, -1, ".weight"); !ok && ld.Tensors.Hyper.GGUF {
		if _, ok := ld.Tensors.Find("token_embd_norm", -1, ".weight"); ok {
			normRole = "token_embd_norm" // the name in the first lfm2 files
		}
	}
	if err := ld.planGain(&w.Norm, normRole, -1, s.Dim); err != nil {
		return nil, err
	}
	if !tied {
		if err := ld.planLinear(&w.Head, "output", -1, s.Vocab, s.Dim); err != nil {
			return nil, err
		}
	}
	return append(layouts, Layout{Name: "ends", Kind: EndsLayout, Layer: len(w.Layers), Places: ld.places}), nil
}

// planLayer plans one layer in the order in which the forward pass uses it.
func (ld *Loader) planLayer(l int, w *LayerWeights) error {
	s := ld.Spec
	if err := ld.planStreams(l, w); err != nil {
		return err
	}
	if s.PreNorm && !s.Layers[l].NoAttnNorm {
		norm := &w.AttnNorm
		if s.Layers[l].Mixer == arch.NoMixer {
			norm = &w.FFNNorm
		}
		if err := ld.planGain(norm, "attn_norm", l, s.Dim); err != nil {
			return err
		}
	}
	if err := ld.planMixer(l, w); err != nil {
		return err
	}
	if s.Layers[l].NoMLP {
		return nil
	}
	afterAttention, afterMLP := normRoles(s)
	if afterAttention != "" {
		if err := ld.planGain(&w.PostAttnNorm, afterAttention, l, s.Dim); err != nil {
			return err
		}
	}
	if s.PreNorm && s.Layers[l].Mixer != arch.NoMixer && s.Parallel != arch.ParallelSharedNorm {
		if err := ld.planGain(&w.FFNNorm, "ffn_norm", l, s.Dim); err != nil {
			return err
		}
	}
	ffn := ld.planMLP
	if s.Layers[l].Experts {
		ffn = ld.planExperts
		if s.DenseBeside {
			ffn = ld.planBeside
		}
	}
	if err := ffn(l, w); err != nil {
		return err
	}
	if afterMLP != "" {
		if err := ld.planGain(&w.PostFFNNorm, afterMLP, l, s.Dim); err != nil {
			return err
		}
	}
	return ld.planPerLayer(l, w)
}

func (ld *Loader) planAttention(l int, w *LayerWeights) error {
	s := ld.Spec
	kv, d := s.Layers[l].KVHeads, s.Layers[l].HeadDim
	if err := ld.planLeft(l, w); err != nil {
		return err
	}
	projections := []*Linear{&w.Q, &w.K, &w.V}
	switch {
	case s.Layers[l].KVBack > 0: // the file may have keys and values that nothing uses
		projections = projections[:1]
	case s.Layers[l].KeyIsValue:
		projections = projections[:2]
	}
	for p, m := range projections {
		if p == 0 && s.GatedAttention {
			if err := ld.planGatedQuery(l, w); err != nil {
				return err
			}
			continue
		}
		matrix, bias, hasBias, err := ld.Tensors.QKV(modelfile.Projection(p), l, kv, d)
		if err := ld.planMatrix(&m.Matrix, modelfile.ProjectionRoles[p], l, matrix, err); err != nil {
			return err
		}
		if hasBias {
			ld.places = append(ld.places, Placement{name: modelfile.TensorName(modelfile.ProjectionRoles[p], l, ".bias"), Slice: bias, Vector: &m.Bias})
		}
		if err := ld.planScale(m, modelfile.ProjectionRoles[p], l); err != nil {
			return err
		}
	}
	if s.QKNorm != arch.NoQKNorm {
		nq, nk := d, d
		if s.QKNorm == arch.QKNormAllHeads {
			nq, nk = d*s.Heads, d*kv
		}
		if err := ld.planGain(&w.QNorm, "attn_q_norm", l, nq); err != nil {
			return err
		}
		if s.Layers[l].KVBack == 0 {
			if err := ld.planGain(&w.KNorm, "attn_k_norm", l, nk); err != nil {
				return err
			}
		}
	}
	if s.Sinks {
		if err := ld.planRequired(&w.Sinks, "attn_sinks", l, s.Heads); err != nil {
			return err
		}
	}
	if err := ld.planRight(l, w); err != nil {
		return err
	}
	return ld.planLinear(&w.O, "attn_output", l, s.Dim, d*s.Heads)
}

func (ld *Loader) planConv(l int, w *LayerWeights) error {
	s := ld.Spec
	if err := ld.planLinear(&w.ConvIn, "shortconv.in_proj", l, 3*s.Dim, s.Dim); err != nil {
		return err
	}
	if err := ld.planRequired(&w.Conv, "shortconv.conv", l, s.Dim*s.ConvTaps); err != nil {
		return err
	}
	if err := ld.planVector(&w.ConvBias, "shortconv.conv", l, ".bias", s.Dim); err != nil {
		return err
	}
	return ld.planLinear(&w.ConvOut, "shortconv.out_proj", l, s.Dim, s.Dim)
}

func (ld *Loader) planMLP(l int, w *LayerWeights) error {
	if err := ld.planInner(&w.MLP, "ffn_gate", "ffn_up", l); err != nil {
		return err
	}
	inner := ld.plannedRows(&w.MLP.Up.Matrix)
	return ld.planLinear(&w.MLP.Down, "ffn_down", l, ld.Spec.Dim, inner)
}

// planInner plans the gate and the up projection of an MLP, or the latter alone.
func (ld *Loader) planInner(w *MLP, gateRole, upRole string, l int) error {
	if !ld.Spec.Gated {
		return ld.planLinear(&w.Up, upRole, l, 0, ld.Spec.Dim)
	}
	gate, up, err := ld.Tensors.GateUp(gateRole, upRole, l)
	if err := ld.planMatrix(&w.Gate.Matrix, gateRole, l, gate, err); err != nil {
		return err
	}
	if err := ld.planMatrix(&w.Up.Matrix, upRole, l, up, nil); err != nil {
		return err
	}
	for i, b := range []struct {
		role string
		m    *Linear
	}{{gateRole, &w.Gate}, {upRole, &w.Up}} {
		bias, ok, err := ld.Tensors.GateUpBias(gateRole, upRole, l, i, up.Rows)
		if err != nil {
			return err
		}
		if ok {
			ld.places = append(ld.places, Placement{name: modelfile.TensorName(b.role, l, ".bias"), Slice: bias, Vector: &b.m.Bias})
		}
		if err := ld.planScale(b.m, b.role, l); err != nil {
			return err
		}
	}
	return nil
}

// plannedRows returns the rows of a planned matrix that is not read yet.
func (ld *Loader) plannedRows(m *Matrix) int {
	for _, p := range ld.places {
		if p.Matrix == m {
			return p.Slice.Rows
		}
	}
	return 0
}

func (ld *Loader) planExperts(l int, w *LayerWeights) error {
	s := ld.Spec
	if err := ld.planLinear(&w.Router, "ffn_gate_inp", l, s.Experts, s.Dim); err != nil {
		return err
	}
	w.Experts = make([]MLP, s.Experts)
	inner := 0 // the first expert determines the size of all
	layer := ld.places
	for i := range w.Experts {
		ld.places = nil
		e := &w.Experts[i]
		up, err := ld.Tensors.Expert("ffn_up_exps", l, i, s.Experts, inner, s.Dim)
		if err := ld.planMatrix(&e.Up.Matrix, modelfile.ExpertRole("ffn_up", i), l, up, err); err != nil {
			return err
		}
		inner = up.Rows
		if s.Gated {
			gate, err := ld.Tensors.Expert("ffn_gate_exps", l, i, s.Experts, up.Rows, s.Dim)
			if err := ld.planMatrix(&e.Gate.Matrix, modelfile.ExpertRole("ffn_gate", i), l, gate, err); err != nil {
				return err
			}
		}
		down, err := ld.Tensors.Expert("ffn_down_exps", l, i, s.Experts, s.Dim, up.Rows)
		if err := ld.planMatrix(&e.Down.Matrix, modelfile.ExpertRole("ffn_down", i), l, down, err); err != nil {
			return err
		}
		if layer, err = ld.appendExpertScales(layer, e, l, i); err != nil {
			return err
		}
		ld.experts = append(ld.experts, Layout{
			Name: fmt.Sprintf("blk.%d.expert.%d", l, i), Kind: expertLayout, Layer: l, Places: ld.places,
		})
	}
	ld.places = layer
	if err := ld.planVector(&w.RouterBias, "exp_probs_b.bias", l, "", s.Experts); err != nil {
		return err
	}
	if err := ld.planExpertBiases(l, w, inner); err != nil {
		return err
	}
	return ld.planShared(l, w)
}

// planShared plans the shared expert, if the layer has one.
func (ld *Loader) planShared(l int, w *LayerWeights) error {
	if _, ok := ld.Tensors.Find("ffn_up_shexp", l, ".weight"); !ok {
		return nil
	}
	if err := ld.planInner(&w.Shared, "ffn_gate_shexp", "ffn_up_shexp", l); err != nil {
		return err
	}
	inner := ld.plannedRows(&w.Shared.Up.Matrix)
	if err := ld.planLinear(&w.Shared.Down, "ffn_down_shexp", l, ld.Spec.Dim, inner); err != nil {
		return err
	}
	if _, ok := ld.Tensors.Find("ffn_gate_inp_shexp", l, ".weight"); !ok {
		return nil
	}
	return ld.planLinear(&w.SharedGate, "ffn_gate_inp_shexp", l, 1, ld.Spec.Dim)
}

// PlanHost is PlanAll for the host's part of a model whose last layers, offloaded of them, an
// accelerator computes. With them it computes the output matrix, so that the host only looks up
// rows of the embedding. Without such layers, the host's part is the whole model.
func (ld *Loader) PlanHost(offloaded int) (*Weights, []Layout, error) {
	w := &Weights{Layers: make([]LayerWeights, len(ld.Spec.Layers)-offloaded)}
	if offloaded == 0 {
		layouts, err := ld.PlanAll(w)
		return w, layouts, err
	}
	embedding, err := ld.planEmbedding(w)
	if err != nil {
		return nil, nil, err
	}
	layers, err := ld.planLayers(w)
	return w, append([]Layout{embedding}, layers...), err
}

// planEmbedding plans an embedding that the host only looks up, as a pack stores it.
func (ld *Loader) planEmbedding(w *Weights) (Layout, error) {
	ends, err := ld.planEnds(w)
	if err != nil {
		return Layout{}, err
	}
	if ends[0].Kind == EmbeddingLayout {
		return ends[0], nil
	}
	l := Layout{Name: "embedding", Kind: EmbeddingLayout, Places: ends[0].Places[:1]}
	if file, ok := ld.Tensors.Source.(*pack.File); !ok || !l.locate(file) {
		l.Places[0].tile = false
	}
	return l, nil
}

// LoadSequentially reads the layouts one after the other and calls take after each. The
// layout's frame is then the last of Frames, so that take can copy its content and free it
// before the next read.
func (ld *Loader) LoadSequentially(ctx context.Context, layouts []Layout, take func(*Layout) error) error {
	ld.Total += ReadBytes(layouts)
	queue := prefetch.New(loadReaders)
	queue.Scheduler = ld.Scheduler
	defer queue.Close()
	for i := range layouts {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := ld.readAll(ctx, queue, layouts[i:i+1]); err != nil {
			return err
		}
		if err := take(&layouts[i]); err != nil {
			return fmt.Errorf("%s of %s: %w", layouts[i].Name, ld.Tensors.Path, err)
		}
	}
	return nil
}

// ReadColumns reads count columns of a matrix, from column first on, into dst.
func (ld *Loader) ReadColumns(ctx context.Context, s *modelfile.TensorSlice, first, count int, dst []float32 /* [count, rows] */) error {
	rowBytes := int(s.Bytes()) / s.Rows
	return ld.eachRows(ctx, s, columnReadBytes, func(at, n int, raw []byte) {
		// The padding avoids cache conflicts between rows a power of two apart.
		const apart = 16
		var rows [tiled.TileRows][]float32 // a tile of rows fills a cache line of each column
		floats := make([]float32, len(rows)*(s.Cols+apart))
		for i := range rows {
			rows[i] = floats[i*(s.Cols+apart):][:s.Cols]
		}
		for ; n > 0; at, n, raw = at+len(rows), n-len(rows), raw[min(len(raw), len(rows)*rowBytes):] {
			few := rows[:min(n, len(rows))]
			for i, row := range few {
				quant.DequantRow(s.Type, row, raw[i*rowBytes:(i+1)*rowBytes])
			}
			for c := range count {
				column := dst[c*s.Rows+at:][:len(few)]
				for i, row := range few {
					column[i] = row[first+c]
				}
			}
		}
	})
}

// columnReadBytes is roughly how many bytes of rows are read before they are transposed. As
// floats they take up to eight times as much memory.
const columnReadBytes = 256 << 10

// LayerMatrices returns the matrices of all layers that a Mix may quantize, by name,
// without loading them.
func LayerMatrices(f *modelfile.Files) (*Loader, map[string]*modelfile.TensorSlice, error) {
	return namedMatrices(f, func(kind layoutKind) bool { return kind == LayerLayout })
}

// AllMatrices returns the matrices of all layers, experts included, by name.
func AllMatrices(f *modelfile.Files) (map[string]*modelfile.TensorSlice, error) {
	_, named, err := namedMatrices(f, func(kind layoutKind) bool { return kind == LayerLayout || kind == expertLayout })
	return named, err
}

// namedMatrices returns the matrices of some layouts.
func namedMatrices(f *modelfile.Files, in func(layoutKind) bool) (*Loader, map[string]*modelfile.TensorSlice, error) {
	spec, err := f.Spec()
	if err != nil {
		return nil, nil, err
	}
	ld := &Loader{Tensors: f.TensorSet(), Spec: spec}
	layouts, err := ld.PlanAll(&Weights{Layers: make([]LayerWeights, len(spec.Layers))})
	if err != nil {
		return nil, nil, err
	}
	named := map[string]*modelfile.TensorSlice{}
	for i := range layouts {
		for j := range layouts[i].Places {
			if p := &layouts[i].Places[j]; p.Matrix != nil && in(layouts[i].Kind) {
				named[p.name] = &p.Slice
			}
		}
	}
	return ld, named, nil
}

// routerRole is the one matrix whose .scale has another meaning: a factor for each input.
const routerRole = "ffn_gate_inp"

// planScale plans the optional scale of a matrix.
func (ld *Loader) planScale(m *Linear, role string, layer int) error {
	if role == routerRole {
		return nil
	}
	s, ok, err := ld.Tensors.Scale(role, layer)
	if ok {
		ld.places = append(ld.places, scalePlacement(m, role, layer, s))
	}
	return err
}

// appendExpertScales plans the optional scales of expert i among the places of its layer, which stay in
// memory when the expert does not.
func (ld *Loader) appendExpertScales(places []Placement, e *MLP, layer, i int) ([]Placement, error) {
	for _, m := range []struct {
		role string
		w    *Linear
	}{{"ffn_up", &e.Up}, {"ffn_gate", &e.Gate}, {"ffn_down", &e.Down}} {
		single := modelfile.ExpertRole(m.role, i)
		s, ok, err := ld.Tensors.ExpertScale(m.role+"_exps", single, layer, i, ld.Spec.Experts)
		if err != nil {
			return nil, err
		}
		if ok {
			places = append(places, scalePlacement(m.w, single, layer, s))
		}
	}
	return places, nil
}

func scalePlacement(m *Linear, role string, layer int, s modelfile.TensorSlice) Placement {
	return Placement{name: modelfile.TensorName(role, layer, modelfile.ScaleSuffix), Slice: s, Vector: &m.Scale}
}

// HasScales reports whether a matrix of the layouts has a scale.
func HasScales(layouts []Layout) bool {
	for i := range layouts {
		for j := range layouts[i].Places {
			if strings.HasSuffix(layouts[i].Places[j].name, modelfile.ScaleSuffix) {
				return true
			}
		}
	}
	return false
}

// planLatent plans a layer with latent attention.
func (ld *Loader) planLatent(l int, w *LayerWeights) error {
	s, n, a := ld.Spec, &w.Latent, ld.Spec.Latent
	queries := s.Heads * (a.Nope + a.Rope)
	q, from := &w.Q, s.Dim
	role := "attn_q"
	if a.QRank > 0 {
		if err := ld.planLinear(&n.QA, "attn_q_a", l, a.QRank, s.Dim); err != nil {
			return err
		}
		if err := ld.planGain(&n.QNorm, "attn_q_a_norm", l, a.QRank); err != nil {
			return err
		}
		q, role, from = &n.QB, "attn_q_b", a.QRank
	}
	if err := ld.planLinear(&n.KV, "attn_kv_a_mqa", l, a.Rank+a.Rope, s.Dim); err != nil {
		return err
	}
	if err := ld.planGain(&n.KVNorm, "attn_kv_a_norm", l, a.Rank); err != nil {
		return err
	}
	if err := ld.planLinear(q, role, l, queries, from); err != nil {
		return err
	}
	n.Keys, n.Values = make([]Linear, s.Heads), make([]Linear, s.Heads)
	if err := ld.planHeads(n.Keys, "attn_k_b", l, a.Rank, a.Nope); err != nil {
		return err
	}
	if err := ld.planHeads(n.Values, "attn_v_b", l, a.Value, a.Rank); err != nil {
		return err
	}
	return ld.planLinear(&w.O, "attn_output", l, s.Dim, s.Heads*a.Value)
}

// planHeads plans a matrix of each head, which files have in one tensor.
func (ld *Loader) planHeads(heads []Linear, role string, l, rows, cols int) error {
	for h := range heads {
		m, err := ld.Tensors.Expert(role, l, h, len(heads), rows, cols)
		if err := ld.planMatrix(&heads[h].Matrix, modelfile.ExpertRole(role, h), l, m, err); err != nil {
			return err
		}
	}
	return nil
}
