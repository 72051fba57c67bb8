package split

import (
	"fmt"
	"time"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/profiles"
	"github.com/llmrun/llmrun/hetero/solve"
	"github.com/llmrun/llmrun/quant"
)

const (
	// leastGain is how much faster than the processor alone another device has to be
	// predicted, and a divided product than each of the two: predictions are too kind
	// to devices that share memory, power and cores. Whole passes have to gain as much
	// when they are tried: less can be chance.
	leastGain = 1.05
	// leastSaving is how much time it has to save: what the other side of a wait may be
	// late on a machine that has other things to do, too.
	leastSaving = 20 * time.Microsecond
	// leastMany is the fewest tokens that are divided as many are.
	leastMany = 32
	// steps is about how many places are looked at to divide a product at, rowStep
	// what they are multiples of.
	steps   = 32
	rowStep = 64
	// startMeasurements are what a profiler asks itself: how long one takes to begin,
	// and how much two devices slow each other down, alone and together.
	startMeasurements = 4
)

// planner decides how products are divided.
type planner struct {
	lab    *lab
	chunk  int
	limit  float64
	alone  bool
	costs  solve.Costs
	types  map[quant.Type]bool // that the device multiplies
	shares map[weights.Product]weights.Share
	own    map[weights.Product]weights.Share // the same with all rows here
	lost   lost
	room   room // nil: the device has memory for all
	// measured is how many products are measured where nothing is known.
	measured int
}

// share returns what was decided, less what was seen to lose; what nobody asked about
// stays here, and what the device has no memory for.
func (p *planner) share(product weights.Product) weights.Share {
	if n, short := p.room[kind(product)]; short && n == 0 {
		return p.own[kind(product)]
	}
	if s, known := p.shares[kind(product)]; known {
		return p.lost.leave(s, p.own[kind(product)], product.OneToken)
	}
	return weights.Share{One: product.Rows, Many: product.Rows}
}

// kind is a product without how often it occurs.
func kind(p weights.Product) weights.Product {
	p.Count = 0
	return p
}

// static reports whether the device runs prepared lengths only.
func (p *planner) static() bool { return p.lab.devices[other].Capabilities().Static }

// findTypes looks which types of weights the device takes. The others are not
// divided.
func (p *planner) findTypes(products []weights.Product) error {
	p.types = map[quant.Type]bool{}
	var refused error
	for _, product := range products {
		if _, known := p.types[product.Type]; known {
			continue
		}
		op := opOf(product, p.chunk)
		op.Rows = min(op.Rows, rowStep)
		p.lab.operands.For(other, &op, 0)
		k, err := p.lab.devices[other].Prepare(op)
		if p.types[product.Type] = err == nil; err != nil {
			refused = fmt.Errorf("%v: %w", product.Type, err)
			continue
		}
		if err := k.Close(); err != nil {
			return err
		}
	}
	for _, product := range products {
		if p.types[product.Type] {
			p.lab.profiler.Weights = product.Type
			return nil
		}
	}
	return fmt.Errorf("%w: it multiplies none of the model's weights: %w", arch.ErrUnsupported, refused)
}

// divideAll decides about each product.
func (p *planner) divideAll(products []weights.Product) error {
	var samples []hetero.Op
	for _, product := range products {
		if p.types[product.Type] {
			samples = append(samples, p.samples(product)...)
		}
	}
	p.measured = len(samples)*len(p.lab.devices) + startMeasurements
	p.costs = host{solve.NewPredictor(p.lab.profiler, samples)}
	for _, product := range products {
		if !p.types[product.Type] {
			continue
		}
		share, err := p.divide(product)
		if err != nil {
			return err
		}
		p.shares[kind(product)], p.own[kind(product)] = share, p.here(product)
	}
	return p.lab.profiler.Err
}

// here returns the share of a product all rows of which stay here.
func (p *planner) here(product weights.Product) weights.Share {
	share := weights.Share{One: product.Rows, Many: product.Rows}
	if !p.static() { // which nothing of one token was measured for
		share.OneTime = p.time(opOf(product, 1), product.Rows)
		share.ManyTime = share.OneTime
	}
	if !product.OneToken {
		share.ManyTime = p.time(opOf(product, p.chunk), product.Rows)
	}
	return share
}

// samples are what predictions for a product are learned from.
func (p *planner) samples(product weights.Product) (list []hetero.Op) {
	lengths := []int{1, leastMany, p.chunk}
	switch {
	case product.OneToken && p.static():
		return nil
	case product.OneToken:
		lengths = lengths[:1]
	case p.static():
		lengths = lengths[2:]
	}
	for _, tokens := range lengths {
		for _, rows := range []int{product.Rows, product.Rows / 4} {
			op := opOf(product, tokens)
			op.Rows = max(rowStep, rows/rowStep*rowStep)
			list = append(list, op)
		}
	}
	return list
}

// divide decides about a product: of one token, of a chunk, and from how many tokens
// on they are divided like a chunk.
func (p *planner) divide(product weights.Product) (weights.Share, error) {
	share := weights.Share{One: product.Rows, Many: product.Rows}
	var err error
	if !p.static() {
		if share.One, share.OneTime, err = p.best(opOf(product, 1)); err != nil {
			return share, err
		}
		share.Many, share.ManyTime = share.One, share.OneTime
	}
	if product.OneToken {
		return share, nil
	}
	if share.Many, share.ManyTime, err = p.best(opOf(product, p.chunk)); err != nil {
		return share, err
	}
	for share.Least = min(leastMany, p.chunk); share.Least < p.chunk; share.Least *= 2 {
		op := opOf(product, share.Least)
		if p.time(op, share.Many) <= p.time(op, share.One) {
			break
		}
	}
	share.Least = min(share.Least, p.chunk)
	return share, nil
}

// best returns how many rows of a product stay here, so that it ends first, and when
// that is.
func (p *planner) best(op hetero.Op) (rows int, took time.Duration, err error) {
	if p.alone {
		return 0, p.time(op, 0), p.lab.profiler.Err
	}
	rows, took = op.Rows, p.time(op, op.Rows)
	if all := p.time(op, 0); p.limit == 0 && worthIt(all, took) {
		rows, took = 0, all
	}
	alone := took
	step := max(rowStep, op.Rows/steps/rowStep*rowStep)
	for here := step; here < op.Rows; here += step {
		t := p.time(op, here)
		if busy := p.costs.Time(other, piece(op, other, here).Op(op)); p.limit > 0 && busy.Seconds() > p.limit*t.Seconds() {
			continue
		}
		if t < took && worthIt(t, alone) {
			rows, took = here, t
		}
	}
	return rows, took, p.lab.profiler.Err
}

// worthIt reports whether a time is so much shorter than another that it is likely to
// be shorter when the model runs.
func worthIt(t, than time.Duration) bool {
	return leastGain*t.Seconds() <= than.Seconds() && t+leastSaving <= than
}

// time predicts a product of which so many rows stay here.
func (p *planner) time(op hetero.Op, here int) time.Duration {
	split := solve.Split{Streamed: op.Streamed}
	if here > 0 {
		split.Pieces = append(split.Pieces, piece(op, own, here))
	}
	solver := solve.Solver{Costs: p.costs, Static: p.static()}
	if here < op.Rows {
		theirs := piece(op, other, here)
		if p.static() {
			theirs.Padded = p.chunk
		}
		split.Pieces = append(split.Pieces, theirs)
		solver.Copy = p.copy(op)
	}
	return solver.Total(op, &split)
}

// piece returns what a device does of a product of which so many rows stay here.
func piece(op hetero.Op, device, here int) solve.Piece {
	if device == own {
		return solve.Piece{Device: own, Tokens: op.Tokens, Padded: op.Tokens, Rows: here}
	}
	return solve.Piece{Device: other, Tokens: op.Tokens, Padded: op.Tokens, Row: here, Rows: op.Rows - here}
}

// copy returns what a copy takes of half of what a product reads and writes: there
// are two, if there are any.
func (p *planner) copy(op hetero.Op) time.Duration {
	device := p.lab.devices[other]
	if device.Capabilities().SharesMemory {
		return 0
	}
	width := (op.Rows + op.Cols) / 2
	if took, known := p.lab.profile.Copy(p.lab.keys, op.Tokens, width); known {
		return took
	}
	_, y, _ := p.lab.operands.For(other, &op, 0)
	y.Stride = width
	clock, least := device.Clock(), time.Duration(0)
	for i := range repeats {
		begin := clock.Now()
		if err := device.FlushRows(y, op.Tokens, width); err != nil {
			p.lab.profiler.Err = err
			return 0
		}
		if took := clock.Now() - begin; i == 0 || took < least {
			least = took
		}
	}
	p.lab.noteCopy(profiles.CopyTime{Tokens: op.Tokens, Width: width, Took: least})
	return least
}

// host are costs of which device 0 computes at once whatever is asked of it: it is
// who submits.
type host struct{ solve.Costs }

// Start is nothing for the host.
func (h host) Start(device int) time.Duration {
	if device == own {
		return 0
	}
	return h.Costs.Start(device)
}

const (
	// answer is how many tokens are generated behind each chunk of a prompt, when
	// passes are compared.
	answer = 128
	// beside is how many times its products a pass on a device is taken to last: norms
	// and attention are not measured.
	beside = 1.5
)

// thereFaster reports whether the device is predicted to compute passes faster when
// all of them runs there, so that nobody waits between two products.
func (p *planner) thereFaster(products []weights.Product) bool {
	if p.static() {
		return false
	}
	divided, there := 0.0, (1+answer)*p.costs.Start(other).Seconds()
	for _, product := range products {
		if !product.Divisible() || !p.types[product.Type] {
			return false
		}
		count, share := float64(product.Count), p.share(product)
		one := p.costs.Time(other, opOf(product, 1)).Seconds()
		if product.OneToken {
			divided += (1 + answer) * share.OneTime.Seconds()
			there += (1 + answer) * one
			continue
		}
		divided += count * (share.ManyTime.Seconds() + answer*share.OneTime.Seconds())
		there += count * (p.costs.Time(other, opOf(product, p.chunk)).Seconds() + answer*one)
	}
	return beside*there < divided
}
