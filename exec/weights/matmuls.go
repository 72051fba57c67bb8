package weights

import (
	"strings"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/quant"
)

// Matmul is a matrix that a pass multiplies with, and those of other layers that
// are of the same kind, type and size.
type Matmul struct {
	Name       string // of its role, such as "attn_q"
	Type       quant.Type
	Rows, Cols int
	Count      int // in the model
	// LastTokenOnly says that only the last token of a prompt is multiplied with it.
	LastTokenOnly bool
}

// Matmuls lists the matrices of the model, in the order in which a pass uses
// them. Of the experts of a layer those count that a token uses. No weights are read.
func Matmuls(f *modelfile.Files) ([]Matmul, error) {
	spec, err := f.Spec()
	if err != nil {
		return nil, err
	}
	ld := &Loader{Tensors: f.TensorSet(), Spec: spec}
	w := &Weights{Layers: make([]LayerWeights, len(spec.Layers))}
	plans, err := ld.PlanAll(w)
	if err != nil {
		return nil, err
	}
	for i := range plans {
		plans[i].Describe()
	}
	var list matmulList
	for i := range w.Layers {
		l := &w.Layers[i]
		for _, m := range l.Dense() {
			list.add(m.Name, &m.Matrix.Matrix, 1)
		}
		list.add(routerMatmul, &l.Router.Matrix, 1)
		if len(l.Experts) > 0 {
			list.addMLP(expertMatmul, &l.Experts[0], spec.ExpertsUsed)
		}
	}
	head := &w.Head.Matrix
	if !head.Present() {
		head = &w.Embed.Matrix
	}
	list.add("output", head, 1)
	list[len(list)-1].LastTokenOnly = true
	return list, nil
}

// Names of products that are told apart from others.
const (
	routerMatmul = "ffn_router"
	expertMatmul = "ffn_expert" // and of which matrix
)

// matmulList gathers products.
type matmulList []Matmul

// add counts a matrix, if it is there.
func (p *matmulList) add(name string, m *Matrix, times int) {
	if !m.Present() {
		return
	}
	for i := range *p {
		if q := &(*p)[i]; q.Name == name && q.Type == m.Type && q.Rows == m.Rows && q.Cols == m.Cols {
			q.Count += times
			return
		}
	}
	*p = append(*p, Matmul{Name: name, Type: m.Type, Rows: m.Rows, Cols: m.Cols, Count: times})
}

func (p *matmulList) addMLP(name string, m *MLP, times int) {
	p.add(name+"_gate", &m.Gate.Matrix, times)
	p.add(name+"_up", &m.Up.Matrix, times)
	p.add(name+"_down", &m.Down.Matrix, times)
}

// Splittable reports whether a product can be divided. Experts, which few tokens use
// at a time, and their routers, which are small, are not.
func (p Matmul) Splittable() bool {
	return p.Name != routerMatmul && !strings.HasPrefix(p.Name, expertMatmul)
}
