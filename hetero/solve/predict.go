package solve

import (
	"math"
	"time"

	"github.com/llmrun/llmrun/hetero"
)

// Predictor answers from few measurements: a tree for a device whose speed goes
// in steps of the shape, a fixed rate and a fixed bandwidth for others.
type Predictor struct {
	Measured *Profiler
	trees    map[int]*Tree
	flops    map[int]float64
	bytes    map[int]float64
}

// features of a product: what a tree may divide by.
func features(op hetero.Op) []float64 {
	order := 0.0
	if op.Streamed {
		order = 1
	}
	return []float64{order, float64(op.Tokens), float64(op.Rows), float64(op.Cols), float64(op.Rows) / float64(op.Cols)}
}

// work is what a product's time is predicted in proportion to. A tree over
// times themselves would answer in coarse steps.
func work(op hetero.Op) float64 {
	return float64(op.Tokens) * float64(op.Rows) * float64(op.Cols)
}

// NewPredictor measures the samples on the devices that are static, and two
// products on each that is not.
func NewPredictor(p *Profiler, samples []hetero.Op) *Predictor {
	q := &Predictor{Measured: p, trees: map[int]*Tree{}, flops: map[int]float64{}, bytes: map[int]float64{}}
	for d := range p.devices {
		if !p.devices[d].Capabilities().Static {
			large := hetero.Op{Tokens: 512, Rows: 4096, Cols: 4096, Streamed: true}
			single := hetero.Op{Tokens: 1, Rows: 4096, Cols: 4096, Streamed: true}
			q.flops[d] = work(large) / p.Time(d, large).Seconds()
			q.bytes[d] = work(single) / p.Time(d, single).Seconds()
			continue
		}
		var list []Sample
		for _, op := range samples {
			list = append(list, Sample{X: features(op), Y: math.Log(p.Time(d, op).Seconds() / work(op))})
		}
		q.trees[d] = GrowTree(list, 2)
	}
	return q
}

// Time predicts.
func (q *Predictor) Time(device int, op hetero.Op) time.Duration {
	seconds := 0.0
	if tree := q.trees[device]; tree != nil {
		seconds = work(op) * math.Exp(tree.Predict(features(op)))
	} else {
		seconds = max(work(op)/q.flops[device], float64(op.Rows)*float64(op.Cols)/q.bytes[device])
	}
	return time.Duration(seconds * 1e9)
}

// Start is measured.
func (q *Predictor) Start(device int) time.Duration { return q.Measured.Start(device) }

// Slowdown is measured with one product of the same length.
func (q *Predictor) Slowdown(op hetero.Op) float64 {
	op.Rows, op.Cols = 4096, 4096
	return q.Measured.Slowdown(op)
}

// Error compares predictions with real execution on products that need not have
// been measured before: the mean and the largest relative error.
func (q *Predictor) Error(device int, ops []hetero.Op) (mean, largest float64) {
	for _, op := range ops {
		measured := q.Measured.Time(device, op).Seconds()
		e := math.Abs(q.Time(device, op).Seconds()/measured - 1)
		mean += e / float64(len(ops))
		largest = max(largest, e)
	}
	return mean, largest
}
