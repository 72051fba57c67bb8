package cpu

import (
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/tiering"
)

// leastWork is how many multiplications a part of a product has at least: tens
// of microseconds, beside which handing out a part is nothing.
const leastWork = 1 << 18

// product is what the device is at, and the working memory for it. It is a
// threadpool.RangeTask over tiles, or over rows where there are none.
type product struct {
	device *Device
	round  func(token, worker int) // roundToken, made once because making it allocates
	floats []*quant.Scratch        // [workers]
	tiles  []*tiled.Scratch        // [workers]

	op     hetero.Op
	data   []byte
	x      []float32 // [tokens, stride]
	stride int
	y      []float32 // [tokens, apart]
	apart  int
	matrix tiled.Matrix
}

func (p *product) start(d *Device, workers int) {
	p.device, p.round = d, p.roundToken
	for range workers {
		p.floats = append(p.floats, quant.NewScratch(1))
		p.tiles = append(p.tiles, tiled.NewScratch(1))
	}
}

// reserve makes room for the activations of a product, as it multiplies them.
func (d *Device) reserve(op hetero.Op) error {
	floats := op.Tokens * op.Cols
	if inTiles(op) {
		floats = tiled.FloatsNeeded(op.Cols, op.Tokens)
	}
	if d.memory != nil && len(d.memory.Floats()) >= floats {
		return nil
	}
	frame, err := tiering.Alloc(d.budget, tiering.Scratch, 4*floats)
	if err != nil {
		return err
	}
	if d.memory != nil {
		d.memory.Free()
	}
	d.memory = frame
	return nil
}

// run does a product.
func (p *product) run(t *ticket) {
	p.op, p.data = t.kernel.op, t.kernel.weights.data
	p.op.Tokens = t.tokens
	p.x, p.stride = from(t.x, p.op.Tokens, p.op.Cols), t.x.Stride
	p.y, p.apart = from(t.y, p.op.Tokens, p.op.Rows), t.y.Stride
	d := p.device
	units, unit := p.op.Rows, 1
	if inTiles(p.op) {
		d.acts.Use(d.memory.Floats(), p.op.Cols, p.op.Tokens)
		d.workers.Run(p.op.Tokens, p.round)
		p.matrix = tiled.Matrix{Type: p.op.Type, Rows: p.op.Rows, Cols: p.op.Cols, Data: p.data, Stride: p.apart}
		units, unit = p.matrix.Tiles(), tiled.TileRows
	} else {
		p.pull()
	}
	d.workers.RunRange(units, leastWork/(unit*p.op.Cols*p.op.Tokens), p)
}

// from returns the numbers of a view from its first to its last.
func from(v hetero.View, rows, cols int) []float32 {
	return v.Buffer.Floats()[v.Offset:][:(rows-1)*v.Stride+cols]
}

// roundToken rounds the activations of a token.
func (p *product) roundToken(token, _ int) {
	x := p.x[token*p.stride:][:p.op.Cols]
	if p.op.Scale > 0 {
		p.device.acts.SetWhole(token, x, p.op.Scale)
		return
	}
	p.device.acts.Set(token, x)
}

// pull puts the rows of activations next to each other, where they are not.
func (p *product) pull() {
	if p.stride == p.op.Cols {
		return
	}
	memory := p.device.memory.Floats()[:p.op.Tokens*p.op.Cols]
	for t := range p.op.Tokens {
		copy(memory[t*p.op.Cols:], p.x[t*p.stride:][:p.op.Cols])
	}
	p.x, p.stride = memory, p.op.Cols
}

// Range does some tiles, or rows.
func (p *product) Range(lo, hi, worker int) {
	if inTiles(p.op) {
		tiled.Multiply(p.y, &p.matrix, lo, hi, &p.device.acts, p.tiles[worker])
		return
	}
	quant.MulRows(p.y, p.apart, p.op.Type, p.data, p.op.Cols, lo, hi, p.x, p.op.Tokens, p.floats[worker])
}
