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
		for _, m := range l.dense() {
			list.add(m.name, &m.matrix.Matrix, 1)
		}
		list.add(routerProduct, &l.router.Matrix, 1)
		if len(l.experts) > 0 {
			list.addMLP(expertProduct, &l.experts[0], spec.ExpertsUsed)
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

// Names of products that are told apart from others.
const (
	routerProduct = "ffn_router"
	expertProduct = "ffn_expert" // and of which matrix
)

// namedLinear is a matrix and its role.
type namedLinear struct {
	name   string
	matrix *linear
}

// dense returns the matrices of a layer that all tokens are multiplied with and that
// are not small, in the order of their use. Those that the layer does not have are
// not present.
func (w *layerWeights) dense() []namedLinear {
	return []namedLinear{
		{"attn_q", &w.q},
		{"attn_k", &w.k},
		{"attn_v", &w.v},
		{"attn_output", &w.o},
		{"conv_in", &w.convIn},
		{"conv_out", &w.convOut},
		{"ffn_gate", &w.mlp.gate},
		{"ffn_up", &w.mlp.up},
		{"ffn_down", &w.mlp.down},
		{"ffn_shared_gate", &w.shared.gate},
		{"ffn_shared_up", &w.shared.up},
		{"ffn_shared_down", &w.shared.down},
	}
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
