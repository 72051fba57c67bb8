package llmrun_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// TestMasksAreNotOverwritten checks that a mask is not made, and then used, while another one is computed ahead in its memory.
func TestMasksAreNotOverwritten(t *testing.T) {
	e := demo(t)
	synctest.Test(t, func(t *testing.T) {
		begin, next := llmrun.HeldAnswer(t, e, `root ::= "a" [b-z]+ "."`)
		end, made := begin(), make(chan error, 1)
		go func() { made <- next() }()
		synctest.Wait()
		require.Empty(t, made)
		end()
		require.NoError(t, <-made)
	})
}
