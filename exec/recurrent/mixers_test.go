package recurrent

import (
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSoftplusFollowsItsDefinition(t *testing.T) {
	for x := float32(-80); x < 40; x += 0.37 {
		require.InEpsilon(t, math.Log1p(math.Exp(float64(x))), softplus(x), 4e-7, "%g", x)
	}
	require.True(t, math.IsNaN(float64(softplus(float32(math.NaN())))))
}

// TestNoFunctionsOfTheProcessor: states and queries do not depend on functions of package math whose bits differ between
// processors with and without fused multiply-add; package quant has such functions with fixed steps.
func TestNoFunctionsOfTheProcessor(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range append(files, "../arch/spec.go") {
		if match, _ := filepath.Match("*_test.go", name); match {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "math" {
					require.False(t, slices.Contains([]string{"Exp", "Exp2", "Expm1", "Log", "Log2", "Log1p", "Pow", "Tanh", "FMA"}, s.Sel.Name),
						"%s calls math.%s", name, s.Sel.Name)
				}
			}
			return true
		})
	}
}
