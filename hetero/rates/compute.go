package rates

import (
	"fmt"
	"slices"
	"time"

	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/tiering"
)

const (
	// Compute measures with about as many weight bytes as the model has, in steps and
	// between two bounds. Server caches hold hundreds of megabytes: a model of which a
	// part fits into the cache runs faster, and so does the measurement.
	minWeights, maxWeights, weightStep = 64 << 20, 1 << 30, 64 << 20
	// Rows of matrices have from leastCols to mostCols elements in the measurement; see Matmul.
	leastCols, mostCols = 512, 4096
	// promptTokens and promptRows are the shape of the measured prompt matmul.
	promptTokens, promptRows = 256, 1024
	// Compute runs each matmul passes times, or until maxTime is over, but at least
	// three times, and takes the median.
	passes, maxTime = 31, 200 * time.Millisecond
	// rowsPerPart is the unit of work that threads claim.
	rowsPerPart = 8 * tiled.TileRows
	// filler is the value of all weight bytes. Scales made of it are normal numbers
	// in every format; denormal numbers would slow some processors down.
	filler = 0x3C

	// ComputeRoom is the memory of Compute besides the weights: inputs, the same in 8 bits,
	// outputs, and the fewest rows of weights in float32.
	ComputeRoom = promptTokens*mostCols*4*3/2 + promptTokens*promptRows*4 + promptRows*mostCols*4
)

// Matmul is the kind of matmul that is measured.
type Matmul struct {
	Type quant.Type // of the weights
	// Cols is about the length of a row, which NearCols returns: short rows of many tokens stay in caches.
	Cols int
	// Integers states that the weights are in tiles, which are multiplied in integers; otherwise they are multiplied in
	// float32.
	Integers bool
}

// NearCols returns the row length of Matmul that is next to a model's: few lengths, so that models share measurements.
func NearCols(cols int) int {
	near := leastCols
	for near < mostCols && cols*cols > 2*near*near {
		near *= 2
	}
	return near
}

// WeightBytes returns the number of weight bytes that Compute should measure with,
// for a model that reads this many bytes per token.
func WeightBytes(model int64) int64 {
	return min(max(minWeights, (model+weightStep-1)/weightStep*weightStep), maxWeights)
}

// Compute returns the rate of weight bytes in matmuls with one token and the rate
// of operations in matmuls with many tokens. budget grants memory for the given bytes of weights
// and up to ComputeRoom more.
func Compute(budget *tiering.Budget, m Matmul, threads int, bytes int64) (decodeGBs, prefillGops float64, err error) {
	p, err := newMatmulBench(budget, m, threads, int(bytes))
	if err != nil {
		return 0, 0, err
	}
	defer p.close()
	decode := p.time(p.rows, 1)
	prefill := p.time(promptRows, promptTokens)
	return float64(p.rows*p.rowBytes) / decode.Seconds() / 1e9,
		2 * float64(promptRows*promptTokens) * float64(m.Cols) / prefill.Seconds() / 1e9, nil
}

// matmulBench holds the operands of matmuls of one kind.
type matmulBench struct {
	Matmul
	rows     int
	rowBytes int
	frame    *tiering.Frame
	workers  *threadpool.Pool

	weights   []byte    // [rows, rowBytes], or the same in tiles
	x         []float32 // [promptTokens, cols]
	quantized []float32 // memory for x in 8 bits
	y         []float32 // [promptTokens, promptRows], and [rows] for one token
	floats    []*quant.Scratch
	tiles     []*tiled.Scratch
}

func newMatmulBench(budget *tiering.Budget, m Matmul, threads, bytes int) (*matmulBench, error) {
	rowBytes, err := m.Type.RowBytes(m.Cols)
	if err != nil {
		return nil, err
	}
	if m.Cols < leastCols || m.Cols > mostCols || m.Integers && !tiled.Supported(m.Type) {
		return nil, fmt.Errorf("rates: matmuls of %s with rows of %d elements", m.Type, m.Cols)
	}
	if threads < 1 {
		return nil, fmt.Errorf("rates: %d threads", threads)
	}
	p := &matmulBench{Matmul: m, rowBytes: rowBytes}
	p.rows = max(promptRows, bytes/rowBytes/rowsPerPart*rowsPerPart)
	var probe tiering.Arena
	p.carve(&probe)
	if p.frame, err = tiering.Alloc(budget, tiering.Scratch, probe.Need()); err != nil {
		return nil, err
	}
	p.carve(tiering.NewArena(p.frame))
	p.weights[0] = filler
	for n := 1; n < len(p.weights); n *= 2 {
		copy(p.weights[n:], p.weights[:n])
	}
	for i := range p.x {
		p.x[i] = float32(i%17) - 8
	}
	p.workers = threadpool.New(threads)
	for range threads {
		p.floats = append(p.floats, quant.NewScratch(m.Cols))
		p.tiles = append(p.tiles, tiled.NewScratch(promptTokens))
	}
	return p, nil
}

func (p *matmulBench) carve(a *tiering.Arena) {
	p.weights = a.Bytes(p.rows * p.rowBytes)
	p.x = a.Floats(promptTokens * p.Cols)
	p.quantized = a.Floats(tiled.FloatsNeeded(p.Cols, promptTokens))
	p.y = a.Floats(max(promptTokens*promptRows, p.rows))
}

func (p *matmulBench) close() {
	p.workers.Close()
	p.frame.Free()
}

// time returns the time of a matmul of the first rows with some tokens.
func (p *matmulBench) time(rows, tokens int) time.Duration {
	cols := p.Cols
	matrix := tiled.Matrix{Type: p.Type, Rows: rows, Cols: cols, Data: p.weights}
	var acts tiled.Activations
	if p.Integers {
		acts.Use(p.quantized, cols, tokens)
		for t := range tokens {
			acts.Set(t, p.x[t*cols:(t+1)*cols])
		}
	}
	part := func(part, worker int) {
		lo := part * rowsPerPart
		hi := min(rows, lo+rowsPerPart)
		if p.Integers {
			tiled.Multiply(p.y, &matrix, lo/tiled.TileRows, hi/tiled.TileRows, &acts, p.tiles[worker])
		} else {
			quant.MulRows(p.y, rows, p.Type, p.weights, cols, lo, hi, p.x, tokens, p.floats[worker])
		}
	}
	var took []time.Duration
	for begin := time.Now(); len(took) < 3 || len(took) < passes && time.Since(begin) < maxTime; {
		start := time.Now()
		p.workers.Run((rows+rowsPerPart-1)/rowsPerPart, part)
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return max(took[len(took)/2], 1)
}
