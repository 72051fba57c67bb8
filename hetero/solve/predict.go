package solve

import (
	"math"
	"time"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/quant"
)

// Predictor predicts times from few measurements. It uses a regression tree for
// devices whose speed changes in steps of the shape, such as static devices, and a
// constant compute rate and bandwidth for others. It is not safe for concurrent use.
type Predictor struct {
	Measured *Profiler
	trees    map[predictorKey]*Tree
	rates    map[predictorKey]rate
}

// predictorKey identifies a tree or a rate.
type predictorKey struct {
	device int
	typ    quant.Type
}

// rate is multiplications and weights per second.
type rate struct{ flops, weights float64 }

// features returns the properties of a matmul that the nodes of a tree compare.
func features(op hetero.Op) []float64 {
	order := 0.0
	if op.Streamed {
		order = 1
	}
	return []float64{order, float64(op.Tokens), float64(op.Rows), float64(op.Cols), float64(op.Rows) / float64(op.Cols)}
}

// work returns the amount of work of a matmul. A tree predicts the time per unit of
// work; a tree that predicts times would be too coarse.
func work(op hetero.Op) float64 {
	return float64(op.Tokens) * float64(op.Rows) * float64(op.Cols)
}

// NewPredictor measures the samples on the devices that use trees. On the other
// devices, the first query of a weight type measures two matmuls.
func NewPredictor(p *Profiler, samples []hetero.Op) *Predictor {
	q := &Predictor{Measured: p, trees: map[predictorKey]*Tree{}, rates: map[predictorKey]rate{}}
	for d := range p.devices {
		caps := p.devices[d].Capabilities()
		leaf := 2
		switch {
		case !caps.Simulated:
			leaf = 1 // samples are few and have the model's own shapes
		case !caps.Static:
			continue
		}
		lists := map[predictorKey][]Sample{}
		for _, op := range samples {
			key := predictorKey{d, op.Type}
			lists[key] = append(lists[key], Sample{X: features(op), Y: math.Log(p.Time(d, op).Seconds() / work(op))})
		}
		for key, list := range lists {
			q.trees[key] = GrowTree(list, leaf)
		}
	}
	return q
}

// Time predicts the time of a matmul.
func (q *Predictor) Time(device int, op hetero.Op) time.Duration {
	key, seconds := predictorKey{device, op.Type}, 0.0
	if tree := q.trees[key]; tree != nil {
		seconds = work(op) * math.Exp(tree.Predict(features(op)))
	} else {
		r := q.rate(key)
		seconds = max(work(op)/r.flops, float64(op.Rows)*float64(op.Cols)/r.weights)
	}
	return time.Duration(seconds * 1e9)
}

// rate measures a large matmul and one of a single token.
func (q *Predictor) rate(key predictorKey) rate {
	r, known := q.rates[key]
	if !known {
		side := q.Measured.probeSize()
		large := hetero.Op{Tokens: rateTokens, Rows: side, Cols: side, Type: key.typ, Streamed: true}
		single := hetero.Op{Tokens: 1, Rows: side, Cols: side, Type: key.typ, Streamed: true}
		r.flops = work(large) / q.Measured.Time(key.device, large).Seconds()
		r.weights = work(single) / q.Measured.Time(key.device, single).Seconds()
		q.rates[key] = r
	}
	return r
}

// Start returns the measured start latency.
func (q *Predictor) Start(device int) time.Duration { return q.Measured.Start(device) }

// Slowdown measures one matmul per number of tokens.
func (q *Predictor) Slowdown(op hetero.Op) float64 {
	op.Rows, op.Cols = q.Measured.probeSize(), q.Measured.probeSize()
	return q.Measured.Slowdown(op)
}

// Error compares predictions with measurements, and returns the mean and the
// largest relative error.
func (q *Predictor) Error(device int, ops []hetero.Op) (mean, largest float64) {
	for _, op := range ops {
		measured := q.Measured.Time(device, op).Seconds()
		e := math.Abs(q.Time(device, op).Seconds()/measured - 1)
		mean += e / float64(len(ops))
		largest = max(largest, e)
	}
	return mean, largest
}
