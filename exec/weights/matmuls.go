package weights

import (
	"strings"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/quant"
)

// Matmul stands for all matrices of a model with the same role, type and size.
type Matmul struct {
	Name       string // role, such as "attn_q"
	Type       quant.Type
	Rows, Cols int
	Count      int // in the model
	// LastTokenOnly: a prompt multiplies its last token only.
	LastTokenOnly bool
}

// Matmuls lists the matmuls of a model in the order of a pass. Of a layer's experts it
// counts those that one token uses. It reads no weights.
func Matmuls(f *modelfile.Files) ([]Matmul, error) {
	spec, err := f.Spec()
	if err != nil {
		return nil, err
	}
	ld := &Loader{Tensors: f.TensorSet(), Spec: spec}
	w := &Weights{Layers: make([]LayerWeights, len(spec.Layers))}
	layouts, err := ld.PlanAll(w)
	if err != nil {
		return nil, err
	}
	for i := range layouts {
		layouts[i].Describe()
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

// Names of matmuls that are not split.
const (
	routerMatmul = "ffn_router"
	expertMatmul = "ffn_expert" // followed by the matrix
)

// matmulList collects matmuls.
type matmulList []Matmul

// add counts a matrix if the model has it.
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

// Splittable reports whether a matmul can be split over devices. Routers are too small, and
// few tokens use the same expert.
func (p Matmul) Splittable() bool {
	return p.Name != routerMatmul && !strings.HasPrefix(p.Name, expertMatmul)
}
