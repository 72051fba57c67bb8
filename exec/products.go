package exec

import "github.com/llmrun/llmrun/quant"

// Product is a matrix that a pass multiplies with, and those of other layers that
// are of the same kind, type and size.
type Product struct {
	Name       string // of its role, such as "attn_q"
	Type       quant.Type
	Rows, Cols int
	Count      int // in the model
	// OneToken says that only the last token of a prompt is multiplied with it.
	OneToken bool
}

// Products lists the matrices of the model, in the order in which a pass uses
// them. Of the experts of a layer those count that a token uses. No weights are read.
func (f *Files) Products() ([]Product, error) {
	spec, err := f.Spec()
	if err != nil {
		return nil, err
	}
	ld := &loader{ts: f.tensors(), spec: spec}
	w := &weights{layers: make([]layerWeights, len(spec.Layers))}
	plans, err := ld.planAll(w)
	if err != nil {
		return nil, err
	}
	for i := range plans {
		plans[i].describe()
	}
	var list productList
	for i := range w.layers {
		l := &w.layers[i]
		for _, m := range []struct {
			name   string
			matrix *linear
		}{
			{"attn_q", &l.q},
			{"attn_k", &l.k},
			{"attn_v", &l.v},
			{"attn_output", &l.o},
			{"conv_in", &l.convIn},
			{"conv_out", &l.convOut},
			{"ffn_router", &l.router},
		} {
			list.add(m.name, &m.matrix.Matrix, 1)
		}
		list.addMLP("ffn", &l.mlp, 1)
		list.addMLP("ffn_shared", &l.shared, 1)
		if len(l.experts) > 0 {
			list.addMLP("ffn_expert", &l.experts[0], spec.ExpertsUsed)
		}
	}
	head := &w.head.Matrix
	if !head.present() {
		head = &w.embed.Matrix
	}
	list.add("output", head, 1)
	list[len(list)-1].OneToken = true
	return list, nil
}

// productList gathers products.
type productList []Product

// add counts a matrix, if it is there.
func (p *productList) add(name string, m *Matrix, times int) {
	if !m.present() {
		return
	}
	for i := range *p {
		if q := &(*p)[i]; q.Name == name && q.Type == m.Type && q.Rows == m.Rows && q.Cols == m.Cols {
			q.Count += times
			return
		}
	}
	*p = append(*p, Product{Name: name, Type: m.Type, Rows: m.Rows, Cols: m.Cols, Count: times})
}

func (p *productList) addMLP(name string, m *mlp, times int) {
	p.add(name+"_gate", &m.gate.Matrix, times)
	p.add(name+"_up", &m.up.Matrix, times)
	p.add(name+"_down", &m.down.Matrix, times)
}
