//go:build !noasm

package tiled

import (
	"fmt"
	"math/rand/v2"
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

// amxOperands are the operands of a shape.
type amxOperands struct {
	codes      []uint8 // signed
	x          []int8
	scales, dx []float32
}

func (s amxShape) operands(groups int) (o amxOperands) {
	random := rand.New(rand.NewPCG(3, 4))
	o = amxOperands{
		codes: make([]uint8, groups*s.rows*GroupElems), x: make([]int8, groups*s.tokens*GroupElems),
		scales: make([]float32, groups*s.rows), dx: make([]float32, groups*s.tokens),
	}
	for i := range o.codes {
		o.codes[i] = uint8(random.IntN(31) - 15)
	}
	for i := range o.x {
		o.x[i] = int8(random.IntN(255) - 127)
	}
	for i := range o.scales {
		o.scales[i] = float32(1 + random.IntN(3)) // so that sums are exact
	}
	for i := range o.dx {
		o.dx[i] = float32(1 + random.IntN(3))
	}
	return o
}

// multiply runs the kernel and returns the float sums, [tiles of rows][tiles of tokens][TileTokens][TileRows].
func (s amxShape) multiply(o amxOperands, groups, times int) []float32 {
	sums := make([]float32, s.rows*s.tokens)
	args := &kernelArgs{
		sums: &sums[0], codes: &o.codes[0], scales: &o.scales[0], x: &o.x[0], dx: &o.dx[0], shift: &o.dx[0],
		groups: groups, width: TileTokens, tiles: 1, products: &make([]int32, 2*4*TileTokens*TileRows)[0], config: s.config(),
	}
	for range times {
		s.run(args)
	}
	return sums
}

// config is the configuration of the tile registers: sums in four, tokens in two and codes in two, or what mulPlainAMX has.
func (s amxShape) config() *tileConfig {
	if s.inRegisters {
		return &tileConfigs[TileTokens]
	}
	c := &tileConfig{palette: 1}
	for t := range 6 {
		c.rows[t], c.rowBytes[t] = TileTokens, 4*TileRows
	}
	for t := 4; t < 6; t++ {
		c.rowBytes[t] = GroupElems
	}
	for t := 6; t < 8; t++ {
		c.rows[t], c.rowBytes[t] = planes, planeBytes
	}
	return c
}

// want computes a sum of multiply in plain Go.
func (s amxShape) want(o amxOperands, groups, row, token int) (sum float32) {
	for g := range groups {
		i := 0
		for k := range GroupElems {
			code := o.codes[((g*(s.rows/TileRows)+row/TileRows)*GroupElems+k/laneBytes*laneBytes)*TileRows+row%TileRows*laneBytes+k%laneBytes]
			i += int(int8(code)) * int(o.x[(g*s.tokens+token)*GroupElems+k])
		}
		sum += float32(i) * o.scales[g*s.rows+row] * o.dx[g*s.tokens+token]
	}
	return sum
}

// TestAMXShapes checks the kernels of all shapes.
func TestAMXShapes(t *testing.T) {
	needTiles(t)
	const groups, times = 4, 2
	for _, s := range amxShapes {
		o := s.operands(groups)
		for i, sum := range s.multiply(o, groups, times) {
			row, token := i%TileRows, i/TileRows%TileTokens
			tile := i / (TileRows * TileTokens)
			row, token = row+tile/(s.tokens/TileTokens)*TileRows, token+tile%(s.tokens/TileTokens)*TileTokens
			require.Equal(t, times*s.want(o, groups, row, token), sum, "%d rows, %d tokens, in registers: %t; row %d, token %d", s.rows, s.tokens, s.inRegisters, row, token)
		}
	}
}

// BenchmarkShapesAMX compares shapes of the tiles.
func BenchmarkShapesAMX(b *testing.B) {
	if !quant.Tiles() {
		b.Skip("the active path does not use AMX")
	}
	for _, s := range amxShapes {
		b.Run(fmt.Sprintf("rows=%d/tokens=%d/registers=%t", s.rows, s.tokens, s.inRegisters), func(b *testing.B) {
			const groups, times = 16, 64 // operands fit into the first-level cache
			o := s.operands(groups)
			took := fastest(b, func() { s.multiply(o, groups, times) })
			b.ReportMetric(2*groups*GroupElems*times*float64(s.rows*s.tokens)/took.Seconds()/1e9, "Gop/s")
		})
	}
}
