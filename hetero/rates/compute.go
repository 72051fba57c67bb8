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
	// A product is measured with weights as large as the model's, between two bounds
	// and in steps. Caches of servers hold hundreds of megabytes: a model that they
	// hold in part is as much faster as the measurement then is.
	minWeights, maxWeights, weightStep = 64 << 20, 1 << 30, 64 << 20
	// cols is a length of rows that is common in models.
	cols = 4096
	// promptTokens is how many tokens of a prompt are multiplied together, with
	// promptRows rows of weights.
	promptTokens, promptRows = 256, 1024
	// A product is timed so often, or until so much time has gone by if that is
	// sooner, but three times at least. The time in the middle counts.
	passes, maxTime = 31, 200 * time.Millisecond
	// rowsPerPart is the unit that threads hand out among themselves.
	rowsPerPart = 8 * tiled.TileRows
	// filler is the value of all bytes: scales made of it are sound numbers in
	// every format. Numbers that are not normal would slow some processors down.
	filler = 0x3C
)

// WeightBytes returns with how many bytes of weights Compute should measure for a
// model of which a token is multiplied with so many.
func WeightBytes(model int64) int64 {
	return min(max(minWeights, (model+weightStep-1)/weightStep*weightStep), maxWeights)
}

// Compute returns how many bytes of weights a second are multiplied with one
// token, and how many operations a second are done where many tokens are
// multiplied together: integer ones, if that is how the engine uses the type. It
// takes memory for so many bytes of weights, and little more.
func Compute(t quant.Type, threads int, bytes int64) (decodeGBs, prefillGops float64, err error) {
	p, err := newMatmulBench(t, threads, int(bytes))
	if err != nil {
		return 0, 0, err
	}
	defer p.close()
	decode := p.time(p.rows, 1)
	prefill := p.time(promptRows, promptTokens)
	return float64(p.rows*p.rowBytes) / decode.Seconds() / 1e9,
		2 * float64(promptRows*promptTokens) * cols / prefill.Seconds() / 1e9, nil
}

// matmulBench are matrix products of one type of weights.
type matmulBench struct {
	typ      quant.Type
	rows     int
	rowBytes int
	tiled    bool // multiplied in integers
	frame    *tiering.Frame
	workers  *threadpool.Pool

	weights   []byte    // [rows, rowBytes], or the same in tiles
	x         []float32 // [promptTokens, cols]
	quantized []float32 // memory for x in 8 bits
	y         []float32 // [promptTokens, promptRows], and [rows] for one token
	floats    []*quant.Scratch
	tiles     []*tiled.Scratch
}

func newMatmulBench(t quant.Type, threads, bytes int) (*matmulBench, error) {
	rowBytes, err := t.RowBytes(cols)
	if err != nil {
		return nil, err
	}
	if threads < 1 {
		return nil, fmt.Errorf("rates: %d threads", threads)
	}
	p := &matmulBench{typ: t, rowBytes: rowBytes, tiled: tiled.Supported(t)}
	p.rows = max(promptRows, bytes/rowBytes/rowsPerPart*rowsPerPart)
	var probe tiering.Arena
	p.carve(&probe)
	if p.frame, err = tiering.Alloc(tiering.New(0), tiering.Scratch, probe.Need()); err != nil {
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
		p.floats = append(p.floats, quant.NewScratch(cols))
		p.tiles = append(p.tiles, tiled.NewScratch(promptTokens))
	}
	return p, nil
}

func (p *matmulBench) carve(a *tiering.Arena) {
	p.weights = a.Bytes(p.rows * p.rowBytes)
	p.x = a.Floats(promptTokens * cols)
	p.quantized = a.Floats(tiled.FloatsNeeded(cols, promptTokens))
	p.y = a.Floats(max(promptTokens*promptRows, p.rows))
}

func (p *matmulBench) close() {
	p.workers.Close()
	p.frame.Free()
}

// time returns how long the product of the first rows with some tokens takes.
func (p *matmulBench) time(rows, tokens int) time.Duration {
	matrix := tiled.Matrix{Type: p.typ, Rows: rows, Cols: cols, Data: p.weights}
	var acts tiled.Activations
	if p.tiled {
		acts.Use(p.quantized, cols, tokens)
		for t := range tokens {
			acts.Set(t, p.x[t*cols:(t+1)*cols])
		}
	}
	part := func(part, worker int) {
		lo := part * rowsPerPart
		hi := min(rows, lo+rowsPerPart)
		if p.tiled {
			tiled.Multiply(p.y, &matrix, lo/tiled.TileRows, hi/tiled.TileRows, &acts, p.tiles[worker])
		} else {
			quant.MulRows(p.y, rows, p.typ, p.weights, cols, lo, hi, p.x, tokens, p.floats[worker])
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
