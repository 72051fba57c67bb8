package measure

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/quant"
)

// TestGroupsOfOneRowAreQ4_0 compares groups of one row with the format of files, and groups of 32 rows with those of the transposed
// matrix.
func TestGroupsOfOneRowAreQ4_0(t *testing.T) {
	const n = 64
	rng := rand.New(rand.NewPCG(1, 2))
	matrix, transposed := make([]float32, n*n), make([]float32, n*n)
	for i := range matrix {
		matrix[i] = float32(rng.NormFloat64())
		transposed[i%n*n+i/n] = matrix[i]
	}
	want := make([]float32, n*n)
	data := make([]byte, n*n/groupElements*quant.Q4_0.BlockBytes())
	require.NoError(t, quant.QuantizeRow(quant.Q4_0, data, matrix, nil))
	quant.DequantRow(quant.Q4_0, want, data)

	rows := append([]float32(nil), matrix...)
	require.NoError(t, roundGroups(rows, n, 1))
	require.Equal(t, want, rows)
	require.NoError(t, roundGroups(transposed, n, groupElements))
	for i := range transposed {
		require.Equal(t, want[i%n*n+i/n], transposed[i])
	}
	require.NoError(t, roundGroups(matrix, n, 16))
	require.NotEqual(t, want, matrix)
}
