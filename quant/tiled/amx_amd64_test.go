//go:build !noasm

package tiled

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/cpu"

	"github.com/llmrun/llmrun/quant"
)

// needTiles skips the test if the process cannot use AMX tile registers.
func needTiles(t *testing.T) {
	if !cpu.X86.HasAMXTile || !cpu.X86.HasAMXInt8 {
		t.Skip("this processor has no AMX")
	}
	if !quant.Tiles() {
		t.Skip("the system does not permit this process to use AMX, or LLMRUN_CPU selects another path")
	}
}

// TestAMXStartsAtMinTileTokens checks that AMX is the preferred path, and that it uses tile
// registers from minTileTokens tokens on, except for formats with two scales in a group that it
// cannot widen.
func TestAMXStartsAtMinTileTokens(t *testing.T) {
	needTiles(t)
	require.Equal(t, amx{}, paths()[0])
	usePath(t, amx{})
	for typ, f := range formats {
		cols := max(256, typ.BlockElems())
		m := packed(t, typ, randomRows(typ, 16, cols, 7), 16, cols)
		for _, tokens := range []int{2, minTileTokens - 1, minTileTokens} {
			s, y := NewScratch(tokens), make([]float32, 16*tokens)
			Multiply(y, m, 0, 1, activationsOf(randomVector(cols*tokens, 1), cols, tokens), s)
			require.Equal(t, tokens >= minTileTokens && (!f.halfGroups() || amx{}.wide(f, tokens)), s.panel.centred, "%s, %d tokens", typ, tokens)
		}
	}
}

// TestTilesSurviveInterruptions checks that products are correct when the garbage collector
// interrupts threads by signals, with more goroutines than CPUs. The kernel saves tile
// registers per thread.
func TestTilesSurviveInterruptions(t *testing.T) {
	needTiles(t)
	const rows, cols, tokens = 16, 1024, 80
	m := packed(t, quant.Q4_K, randomRows(quant.Q4_K, rows, cols, 7), rows, cols)
	x := randomVector(cols*tokens, 1)
	want := products(portable{}, m, x, tokens)
	usePath(t, amx{})
	results := make([][]float32, 3*runtime.GOMAXPROCS(0))
	var workers sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(len(results)))
	for i := range results {
		workers.Go(func() {
			defer left.Add(-1)
			a, s := activationsOf(x, cols, tokens), NewScratch(tokens)
			for range 200 {
				y := make([]float32, rows*tokens)
				Multiply(y, m, 0, 1, a, s)
				if results[i] = y; !slices.Equal(y, want) {
					return
				}
			}
		})
	}
	for left.Load() > 0 {
		runtime.GC()
	}
	workers.Wait()
	for i, y := range results {
		requireSame(t, want, y, "goroutine %d", i)
	}
}
