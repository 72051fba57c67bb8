package deviceplan

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/solve"
	"github.com/llmrun/llmrun/internal/bench"
	"github.com/llmrun/llmrun/store/synth"
)

// ModelSource names a model file, or a shape, which needs no file.
type ModelSource struct {
	FS    fs.FS // file system of Path; nil = the operating system's
	Path  string
	Shape string // a name in bench.Shapes, in place of Path
	Quant string // a name in bench.Mixes, for a shape
}

// Name returns the name in reports.
func (m *ModelSource) Name() string {
	if m.Shape != "" {
		return m.Shape + ", " + m.Quant
	}
	return m.Path
}

// matmuls lists the matmuls of a pass.
func (m *ModelSource) matmuls() (list []weights.Matmul, err error) {
	if m.Shape != "" {
		return shapeMatmuls(m.Shape, m.Quant)
	}
	f, err := modelfile.Open(bench.FSOf(m.FS), m.Path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return weights.Matmuls(f)
}

// shapeMatmuls lists the matmuls of a shape.
func shapeMatmuls(name, mix string) (list []weights.Matmul, err error) {
	shape, ok := synth.FindShape(name)
	if !ok {
		return nil, fmt.Errorf("%w: %q", bench.ErrShape, name)
	}
	matrices, err := shape.Matrices(mix)
	if err != nil {
		return nil, err
	}
	for _, m := range matrices {
		p := weights.Matmul{Name: m.Name, Type: m.Type, Rows: m.Rows, Cols: m.Cols, LastTokenOnly: m.Name == "output"}
		times := 1
		if m.Experts > 0 {
			times = shape.ExpertsUsed
		}
		i := slices.IndexFunc(list, func(q weights.Matmul) bool {
			q.Count = 0
			return q == p
		})
		if i < 0 {
			i, list = len(list), append(list, p)
		}
		list[i].Count += times
	}
	return list, nil
}

// opsFor returns the distinct operations of the matmuls for numbers of tokens.
func opsFor(matmuls []weights.Matmul, tokens []int) (list []hetero.Op) {
	for _, p := range matmuls {
		for _, n := range tokens {
			if op := opOf(p, n); (n == 1 || !p.LastTokenOnly) && !slices.ContainsFunc(list, func(o hetero.Op) bool { return sameShape(o, op) }) {
				list = append(list, op)
			}
		}
	}
	return list
}

func opOf(p weights.Matmul, tokens int) hetero.Op {
	return hetero.Op{Tokens: tokens, Rows: p.Rows, Cols: p.Cols, Type: p.Type, Streamed: true}
}

// sameShape compares operations without their weights.
func sameShape(a, b hetero.Op) bool { return solve.ShapeOf(a) == solve.ShapeOf(b) }
