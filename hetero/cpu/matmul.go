package cpu

import (
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/tiering"
)

// minWork is the smallest number of multiplications in a part. It takes tens of
// microseconds, far longer than claiming the part.
const minWork = 1 << 18

// matmul is the running matmul and its working memory. It is a threadpool.RangeTask
// over tiles, or over rows where there are no tiles.
type matmul struct {
	device   *Device
	quantize func(token, worker int) // quantizeToken as a func value, created once because creating it allocates
	floats   []*quant.Scratch        // [workers]
	tiles    []*tiled.Scratch        // [workers]

	op      hetero.Op
	data    []byte
	x       []float32 // [tokens, stride]
	xStride int
	y       []float32 // [tokens, apart]
	yStride int
	matrix  tiled.Matrix
}

func (p *matmul) start(d *Device, workers int) {
	p.device, p.quantize = d, p.quantizeToken
	for range workers {
		p.floats = append(p.floats, quant.NewScratch(1))
		p.tiles = append(p.tiles, tiled.NewScratch(1))
	}
}

// reserve allocates memory for the activations of a matmul.
func (d *Device) reserve(op hetero.Op) error {
	floats := op.Tokens * op.Cols
	if usesTiles(op) {
		floats = tiled.FloatsNeeded(op.Cols, op.Tokens)
	}
	if d.activations != nil && len(d.activations.Floats()) >= floats {
		return nil
	}
	frame, err := tiering.Alloc(d.budget, tiering.Scratch, 4*floats)
	if err != nil {
		return err
	}
	if d.activations != nil {
		d.activations.Free()
	}
	d.activations = frame
	return nil
}

// run executes a matmul.
func (p *matmul) run(t *ticket) {
	p.op, p.data = t.kernel.op, t.kernel.weights.data
	p.op.Tokens = t.tokens
	p.x, p.xStride = floatsOf(t.x, p.op.Tokens, p.op.Cols), t.x.Stride
	p.y, p.yStride = floatsOf(t.y, p.op.Tokens, p.op.Rows), t.y.Stride
	d := p.device
	units, unit := p.op.Rows, 1
	if usesTiles(p.op) {
		d.acts.Use(d.activations.Floats(), p.op.Cols, p.op.Tokens)
		d.workers.Run(p.op.Tokens, p.quantize)
		p.matrix = tiled.Matrix{Type: p.op.Type, Rows: p.op.Rows, Cols: p.op.Cols, Data: p.data, Stride: p.yStride}
		units, unit = p.matrix.Tiles(), tiled.TileRows
	} else {
		p.compact()
	}
	d.workers.RunRange(units, minWork/(unit*p.op.Cols*p.op.Tokens), p)
}

// floatsOf returns the elements of a view from the first to the last.
func floatsOf(v hetero.View, rows, cols int) []float32 {
	return v.Buffer.Floats()[v.Offset:][:(rows-1)*v.Stride+cols]
}

// quantizeToken quantizes the activations of a token.
func (p *matmul) quantizeToken(token, _ int) {
	x := p.x[token*p.xStride:][:p.op.Cols]
	if p.op.Scale > 0 {
		p.device.acts.SetPerTensor(token, x, p.op.Scale)
		return
	}
	p.device.acts.Set(token, x)
}

// compact copies the rows of activations next to each other unless they are dense.
func (p *matmul) compact() {
	if p.xStride == p.op.Cols {
		return
	}
	memory := p.device.activations.Floats()[:p.op.Tokens*p.op.Cols]
	for t := range p.op.Tokens {
		copy(memory[t*p.op.Cols:], p.x[t*p.xStride:][:p.op.Cols])
	}
	p.x, p.xStride = memory, p.op.Cols
}

// Range multiplies a range of tiles or rows.
func (p *matmul) Range(lo, hi, worker int) {
	if usesTiles(p.op) {
		tiled.Multiply(p.y, &p.matrix, lo, hi, &p.device.acts, p.tiles[worker])
		return
	}
	quant.MulRows(p.y, p.yStride, p.op.Type, p.data, p.op.Cols, lo, hi, p.x, p.op.Tokens, p.floats[worker])
}
