package serve

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCodeOfModelsCountsOnce checks that /metrics adds up what models hold, except for the code of the program, which is there once.
func TestCodeOfModelsCountsOnce(t *testing.T) {
	require.Empty(t, heldMemory(nil))
	require.Equal(t, map[string]int64{"heap": 7, "kv hot": 5, "code": 13}, heldMemory([]loaded{
		{held: map[string]int64{"heap": 3, "code": 12}},
		{held: map[string]int64{"heap": 4, "code": 13, "kv hot": 5}},
		{held: map[string]int64{"code": 12}},
	}))
}
